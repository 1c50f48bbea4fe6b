"""The codebook against plain implementations, and a library as oracle."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, strategies as st
from vector_quantize_pytorch import VectorQuantize

from otflam.tokenizer import quantize
from otflam.tokenizer.config import CodebookConfig
from otflam.tokenizer.quantize import Codebook, kmeans, overlap


@given(st.integers(1, 40), st.integers(2, 12), st.integers(1, 8))
def test_nearest_is_the_nearest(tokens: int, codes: int, dim: int) -> None:
    torch.manual_seed(tokens)
    book = Codebook(CodebookConfig(codes, dim))
    book.vectors.normal_()
    x = torch.randn(tokens, dim)
    assert torch.equal(book.nearest(x), torch.cdist(x, book.vectors).argmin(1))


def test_codebook_follows_as_the_library_does() -> None:
    """Same codes and the same vectors as vector-quantize-pytorch over thirty steps."""
    torch.manual_seed(0)
    ours, decay = Codebook(CodebookConfig(16, 8, 0.9, patience=10**9)), 0.9
    theirs = VectorQuantize(8, 16, decay=decay, rotation_trick=False, threshold_ema_dead_code=0, kmeans_init=False)
    start = torch.randn(16, 8)
    book = theirs._codebook
    book.embed.data.copy_(start[None])
    book.embed_avg.data.copy_(start[None])
    book.cluster_size.data.fill_(1)
    ours.vectors.copy_(start)
    ours.sums.copy_(start)
    ours.counts.fill_(1)
    for step in range(30):
        tokens = torch.randn(200, 8) * (1 + step / 10)
        _, expected, _ = theirs(tokens[None])
        assert torch.equal(ours(tokens).codes, expected[0])
        torch.testing.assert_close(ours.vectors, book.embed[0], rtol=1e-5, atol=1e-6)


def test_gradients_pass_straight_through() -> None:
    book = Codebook(CodebookConfig(4, 3)).eval()
    book.vectors.normal_()
    tokens = torch.randn(6, 3, requires_grad=True)
    quantized = book(tokens)
    torch.testing.assert_close(quantized.tokens, book.vectors[quantized.codes])
    (quantized.tokens * torch.arange(18.0).view(6, 3)).sum().backward()
    torch.testing.assert_close(tokens.grad, torch.arange(18.0).view(6, 3))
    expected = (tokens.detach() - book.vectors[quantized.codes]).square().mean()
    torch.testing.assert_close(quantized.distance.detach(), expected)


def test_dead_codes_come_back_on_tokens() -> None:
    book = Codebook(CodebookConfig(4, 2, patience=3))
    book.vectors.copy_(torch.tensor([[0.0, 0], [1, 1], [50, 50], [-50, 50]]))
    book.counts.fill_(1)
    book.sums.copy_(book.vectors)
    tokens = torch.rand(64, 2)
    for _ in range(3):
        book(tokens)
    assert int(book.resets) == 2
    assert (book.vectors[2:, None] - tokens).abs().amax(-1).amin(1).max() < 1e-6
    assert book(tokens).codes.unique().numel() > 2


def test_kmeans_finds_clusters_and_survives_few_tokens() -> None:
    generator = torch.Generator().manual_seed(0)
    centres = torch.tensor([[0.0, 0], [10, 0], [0, 10]])
    tokens = centres.repeat_interleave(50, 0) + 0.1 * torch.randn(150, 2, generator=generator)
    found, sizes = kmeans(tokens, 6, generator)
    assert torch.cdist(centres, found).amin(1).max() < 0.5 and sizes.sum() >= 150
    few, _ = kmeans(tokens[:2], 5, generator)
    assert few.shape == (5, 2) and torch.isfinite(few).all()


@pytest.mark.parametrize("count", [5, 40])  # all pairs, and their sum by the shorter way
def test_overlap_is_the_sum_over_pairs(count: int) -> None:
    vectors = torch.randn(count, 3)
    unit = vectors / vectors.norm(dim=1, keepdim=True)
    expected = sum((unit[i] @ unit[j]) ** 2 for i in range(count) for j in range(count) if i != j)
    torch.testing.assert_close(overlap(vectors), torch.as_tensor(expected))
    assert overlap(torch.eye(4)).abs() < 1e-6


def test_many_codes_are_searched_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    book, tokens = Codebook(CodebookConfig(50, 4)), torch.randn(33, 4)
    book.vectors.normal_()
    whole = book.nearest(tokens)
    monkeypatch.setattr(quantize, "DISTANCES", 500)
    assert torch.equal(book.nearest(tokens), whole)
    assert torch.equal(whole, torch.cdist(tokens, book.vectors).argmin(1))


def test_repulsion_acts_on_the_codes() -> None:
    torch.manual_seed(0)
    start, tokens = torch.randn(8, 4) + 3, torch.randn(64, 4) + 3
    results = []
    for repulsion in (0.0, 0.05):
        book = Codebook(CodebookConfig(8, 4, repulsion=repulsion))
        book.start_from(start)
        for _ in range(20):
            book(tokens)
        results.append(float(overlap(book.vectors)))
    assert results[1] < 0.95 * results[0]
