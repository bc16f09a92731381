"""Episode seeds: stable, distinct, and the same whether hashed one by one or in blocks."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from gymnasium.utils import seeding

from rlrun.engine.envs.episode_ledger import EpisodeLedger
from rlrun.engine.envs.episode_position import EpisodePosition, EpisodeSeeds, hash_keys, split_words


def test_seeds_never_change_between_versions() -> None:
    assert [EpisodeSeeds(0, 0).seed(0, episode) for episode in range(3)] == [1878776328, 336614359, 1620722436]
    assert EpisodeSeeds(2**40 + 1, 2, stream=1).seed(31, 100_000) == 1676708259


def test_every_part_of_the_key_changes_the_seed() -> None:
    keys = itertools.product(range(3), range(3), range(2), range(4), range(50))
    seeds = {EpisodeSeeds(run, worker, stream).seed(env, episode) for run, worker, stream, env, episode in keys}
    assert len(seeds) == 3 * 3 * 2 * 4 * 50
    assert all(0 <= seed < 2**31 for seed in seeds)


@pytest.mark.parametrize("run_seed", [0, 1, 2**31, 2**32, 2**40 + 1, 2**64 - 1, 2**100])
def test_seeds_computed_as_a_block_equal_seeds_computed_one_by_one(run_seed: int) -> None:
    seeds = EpisodeSeeds(run_seed, worker_index=3, stream=2)
    slots, episodes = np.arange(5), np.array([0, 1, 2**20, 2**32 - 1])[:, None]
    expected = [[seeds.seed(slot, int(episode)) for slot in slots.tolist()] for episode in episodes[:, 0]]
    assert seeds.seeds(slots, episodes).tolist() == expected


@pytest.mark.parametrize("length", [1, 3, 4, 5, 9])
def test_the_hash_for_blocks_of_seeds_equals_numpys(length: int) -> None:
    keys = np.random.default_rng(length).integers(0, 2**32, size=(50, length), dtype=np.uint32)
    expected = [np.random.SeedSequence(key.tolist()).generate_state(8) for key in keys]
    np.testing.assert_array_equal(hash_keys(list(keys.T), 8), expected)


def test_split_words_puts_the_lowest_word_first() -> None:
    assert split_words(0) == [0]
    assert split_words(2**32 + 5) == [5, 1]


def test_the_ledger_counts_each_slots_episodes_even_beyond_one_block_of_seeds() -> None:
    seeds = EpisodeSeeds(11, 0)
    ledger = EpisodeLedger(seeds, num_envs=3, first_episodes=[0, 5, 7])
    assert ledger.start_over() == [seeds.seed(0, 0), seeds.seed(1, 5), seeds.seed(2, 7)]
    assert [ledger.begin_next(1) for _ in range(1000)] == [seeds.seed(1, episode) for episode in range(6, 1006)]
    assert ledger.begin_next(0) == seeds.seed(0, 1)
    assert ledger.place(1, 17) == EpisodePosition(1005, seeds.seed(1, 1005), 17)
    assert ledger.start_over() == [seeds.seed(0, 0), seeds.seed(1, 5), seeds.seed(2, 7)]


def test_positions_read_for_all_slots_at_once_equal_those_read_one_by_one() -> None:
    ledger = EpisodeLedger(EpisodeSeeds(11, 0), num_envs=3, first_episodes=[0, 5, 7])
    ledger.begin_next(1)
    assert ledger.places([4, 0, 9]) == [ledger.place(0, 4), ledger.place(1, 0), ledger.place(2, 9)]
    assert [place.episode for place in ledger.places([4, 0, 9])] == [0, 6, 7]


def test_the_ledger_returns_to_a_position_and_continues_from_there() -> None:
    seeds = EpisodeSeeds(11, 0)
    ledger = EpisodeLedger(seeds, num_envs=2)
    ledger.return_to(1, EpisodePosition(40, 123, 9))
    assert ledger.place(1, 9) == EpisodePosition(40, 123, 9)
    assert ledger.begin_next(1) == seeds.seed(1, 41)
    assert ledger.place(0, 0).episode == 0


def test_the_ledgers_generators_equal_gymnasiums_for_the_same_seeds() -> None:
    ledger = EpisodeLedger(EpisodeSeeds(3, 1), num_envs=2)
    for _ in range(600):
        seed = ledger.begin_next(1)
    expected, _ = seeding.np_random(seed)
    np.testing.assert_array_equal(ledger.generator(1).uniform(size=9), expected.uniform(size=9))
    ledger.return_to(1, EpisodePosition(2, 99, 0))
    expected, _ = seeding.np_random(99)
    np.testing.assert_array_equal(ledger.generator(1).uniform(size=9), expected.uniform(size=9))
