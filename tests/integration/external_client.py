"""Plays episodes of 3 steps, or a single one without end, and prints a line for each action.

Arguments: the folder of the client's file, the address, and the number of episodes; 0 for one without end.
"""

import sys

if __name__ == "__main__":
    sys.path.insert(0, sys.argv[1])
    from client import Client  # type: ignore[import-not-found]

    client = Client(sys.argv[2], patience_s=60.0)
    for _ in range(int(sys.argv[3]) or 1):
        episode, step = client.start_episode(), 0
        while step < 3 or sys.argv[3] == "0":
            client.get_action(episode, [float(step)])
            client.log_returns(episode, 1.0)
            print(step, flush=True)
            step += 1
        client.end_episode(episode, [float(step)])
