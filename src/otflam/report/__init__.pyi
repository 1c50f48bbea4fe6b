from otflam.report.clip_sheet import (
    Sampler as Sampler,
    draw_clip_sheet as draw_clip_sheet,
    overlay as overlay,
    sheet_tile as sheet_tile,
)
from otflam.report.curves import draw_convergence as draw_convergence, draw_expert_curves as draw_expert_curves
from otflam.report.episodes import (
    contact_sheet as contact_sheet,
    write_video as write_video,
    writing_video as writing_video,
)
from otflam.report.figures import draw_figures as draw_figures
from otflam.report.moments import Shot as Shot, clock as clock, draw_shots as draw_shots, write_shots as write_shots
from otflam.report.own_page import make_own_page as make_own_page, own_stores as own_stores
from otflam.report.page import make_page as make_page
from otflam.report.palette import name_code as name_code
from otflam.report.predictions import (
    draw_inside as draw_inside,
    draw_predictions as draw_predictions,
    draw_rollout as draw_rollout,
)
from otflam.report.progress import Lines as Lines, ProgressBar as ProgressBar, say as say, speaking as speaking
from otflam.report.rendering import Table as Table, as_markdown as as_markdown
from otflam.report.tables import (
    export_tables as export_tables,
    fill as fill,
    study_tables as study_tables,
)
from otflam.report.vocabulary import (
    draw_assignments as draw_assignments,
    draw_atlas as draw_atlas,
    draw_codebook as draw_codebook,
    draw_motion_inputs as draw_motion_inputs,
    draw_strips as draw_strips,
)
