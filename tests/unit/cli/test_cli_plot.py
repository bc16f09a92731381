import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from click.testing import CliRunner

import rlrun
from rlrun.cli.plot import _curve, plot


def test_seeds_of_one_configuration_share_a_grid_and_miss_values_only_where_they_have_none():
    seeds = [
        [{"x": 0, "y": None}, {"x": 10, "y": 1.0}, {"x": 20, "y": 3.0}],
        [{"x": 0, "y": 5.0}, {"x": 20, "y": 5.0}],
    ]
    curve = _curve("both", seeds, "y", "x")
    assert (curve.xs[0], curve.xs[-1]) == (0, 20)
    at_15 = np.argmin(abs(curve.xs - 15))
    assert curve.ys[:, at_15] == pytest.approx([2.0, 5.0], abs=0.02)
    assert np.isnan(curve.ys[0, 0])
    assert curve.ys[1, 0] == 5.0


def test_a_run_is_drawn_and_a_wrong_metric_is_answered_with_the_nearest(tmp_path):
    config = {"train_batch_size": 64, "minibatch_size": 64, "num_epochs": 1, "model": {"hiddens": [8]}}
    spec = {"algorithm": "ppo", "env": "CartPole-v1", "seeds": 2, "stop": {"iteration": 3}, "config": config}
    rlrun.run({"tiny": spec}, runs_dir=tmp_path, executor="local")
    picture = tmp_path / "curve.svg"
    done = CliRunner().invoke(plot, ["tiny", "--runs-dir", str(tmp_path), "-o", str(picture)])
    assert done.exit_code == 0, done.output
    assert ElementTree.parse(picture).getroot().tag.endswith("svg")
    first = picture.read_bytes()
    CliRunner().invoke(plot, ["tiny", "--runs-dir", str(tmp_path), "-o", str(picture)])
    assert picture.read_bytes() == first
    wrong = CliRunner().invoke(plot, ["tiny", "--runs-dir", str(tmp_path), "-o", str(picture), "--metric", "env_step"])
    assert "did you mean 'env_steps'?" in str(wrong.exception)
    bad = CliRunner().invoke(plot, ["tiny", "--runs-dir", str(tmp_path), "-o", str(tmp_path / "curve.bmp")])
    assert "written as .svg, .png or .pdf" in str(bad.exception)
