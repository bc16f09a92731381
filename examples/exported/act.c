/* A loop around an exported policy of CartPole-v1:

     rlrun export my-run --to c -o policy.c
     cc -O2 act.c policy.c -lm -o act && echo "0.01 0 0.02 0" | ./act

   Reads observations of four numbers, and prints an action for each. */
#include <stdint.h>
#include <stdio.h>

void policy_act(const float obs[4], int64_t action[1], float logits[2]);

int main(void) {
    float obs[4], logits[2];
    int64_t action;
    while (scanf("%f %f %f %f", &obs[0], &obs[1], &obs[2], &obs[3]) == 4) {
        policy_act(obs, &action, logits);
        printf("%d\n", (int)action);
    }
    return 0;
}
