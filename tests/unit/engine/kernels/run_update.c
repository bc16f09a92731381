/* Runs a recorded update: `run_update FILE NUMBER` reads memory and steps, and writes the memory after NUMBER updates.

   Native integers of 64 bits: the number of blocks; address and size of each; their bytes; the number of steps; each
   step's kernel by name, in 32 bytes, and its `Step`. */
#include "kernels.c"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

static void *bytes_of(FILE *file, int64_t size) {
    void *found = malloc(size ? size : 1);
    if (!found || fread(found, 1, size, file) != (size_t)size) exit(2);
    return found;
}

int main(int argc, char **argv) {
    FILE *file = argc == 3 ? fopen(argv[1], "rb") : NULL;
    if (!file) return 2;
    const int64_t num_blocks = *(int64_t *)bytes_of(file, 8), *places = bytes_of(file, 16 * num_blocks);
    char **blocks = malloc(num_blocks * sizeof(char *));
    for (int64_t b = 0; b < num_blocks; b++) blocks[b] = bytes_of(file, places[2 * b + 1]);
    const int64_t num_steps = *(int64_t *)bytes_of(file, 8);
    Step *steps = malloc(num_steps * sizeof(Step));
    for (Step *s = steps; s < steps + num_steps; s++) {
        void *kernel = dlsym(NULL, bytes_of(file, 32));
        memcpy(s, bytes_of(file, sizeof(Step)), sizeof(Step));
        if (!(s->kernel = kernel)) return 3;
        for (int k = 0; k < 3; k++)
            for (int64_t b = 0; b < num_blocks; b++) {
                const int64_t offset = (int64_t)s->at[k] - places[2 * b];
                if (0 <= offset && offset < places[2 * b + 1]) {
                    s->at[k] = blocks[b] + offset;
                    break;
                }
            }
    }
    for (int k = 0; k < atoi(argv[2]); k++) run_steps(steps, num_steps);
    for (int64_t b = 0; b < num_blocks; b++) fwrite(blocks[b], 1, places[2 * b + 1], stdout);
    return 0;
}
