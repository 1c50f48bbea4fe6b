from otflam.experiments.bench.run import run_bench as run_bench
from otflam.experiments.campaign.run import (
    count_tables as count_tables,
    fill_page as fill_page,
    judge_cases as judge_cases,
    list_failures as list_failures,
)
from otflam.experiments.cells import (
    Site as Site,
    check_failures as check_failures,
    named_so as named_so,
    run_cells as run_cells,
)
from otflam.experiments.compare import compare_videos as compare_videos
from otflam.experiments.datasets import Lab as Lab
from otflam.experiments.estimate import estimate_work as estimate_work
from otflam.experiments.machines import MACHINES as MACHINES, Accelerated as Accelerated, plan_work as plan_work
from otflam.experiments.moments import search as search
from otflam.experiments.redrawing import redraw_all as redraw_all
from otflam.experiments.settings import suggest as suggest
from otflam.experiments.studies import (
    STUDIES as STUDIES,
    draw_predictions_of as draw_predictions_of,
    draw_vocabulary as draw_vocabulary,
    run_demo as run_demo,
)
from otflam.experiments.suggestions import told as told
from otflam.experiments.tokenize import tokenize_video as tokenize_video, verdict as verdict
