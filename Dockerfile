# An image with rlrun and the common extras. The repository is the build context:
#
#   docker build -t rlrun .
#   docker run --rm rlrun                                      trains PPO on CartPole
#   docker run --rm -v "$PWD:/work" -w /work rlrun rlrun train my.yaml
#
# TORCH_INDEX_URL is the package index to install torch from, for example one without CUDA packages.
FROM python:3.12-slim

ARG TORCH_INDEX_URL=
ARG EXTRAS=mujoco,atari,plot,video,optuna,export,serve

RUN apt-get update \
    && apt-get install --yes --no-install-recommends g++ make \
    && rm -rf /var/lib/apt/lists/*

WORKDIR /rlrun
COPY . .
RUN make install EXTRAS=$EXTRAS TORCH_INDEX_URL=$TORCH_INDEX_URL
ENV PATH=/rlrun/.venv/bin:$PATH

CMD ["make", "train"]
