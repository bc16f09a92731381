from rlrun.engine.datasets.notes import env_note


def test_a_note_contains_no_path_no_address_and_no_possibly_secret_argument() -> None:
    env = {
        "world": "my_lab.worlds:Harbor",
        "kwargs": {
            "size": 3,
            "wind": [0.5, 1.0],
            "name": "north",
            "map": "/home/ada/map.png",
            "server": "http://10.0.0.1",
            "api_token": "north",
            "inner": {"user": "ada", "gates": 2},
            "mixed": ["a/b", 1],
        },
        "wrappers": [{"id": "a.b:C"}],
    }
    kept = {"size": 3, "wind": [0.5, 1.0], "name": "north", "inner": {"gates": 2}}
    assert env_note(env) == {"world": "my_lab.worlds:Harbor", "kwargs": kept}
    assert env_note({"id": "/home/ada/env.py:Env"}) == {}
