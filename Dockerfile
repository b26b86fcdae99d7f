# docker build -t trainer . && docker run -v $PWD:/home/trainer/work trainer launch --config_file work/my.yaml
# For NVIDIA GPUs: docker build --build-arg TRAINER_CUDA=ON …, and docker run --gpus all … (docs/gpu.md).
# With several GPUs also --shm-size=8g --ulimit memlock=-1: NCCL's ranks share memory in /dev/shm, and Docker's 64 MB are
# too small. Ranks on the CPU don't need it: what they share is anonymous memory. tools/check_image.sh builds the image with
# podman and runs the main job in it.
FROM debian:12 AS build
# pip's index URL, for networks with a mirror: --build-arg PIP_INDEX_URL=…
ARG PIP_INDEX_URL
ARG TRAINER_CUDA=OFF
ENV TRAINER_DEPS=/opt/trainer/deps
WORKDIR /src
# Dependencies first: Docker caches this layer until the pinned packages change.
COPY tools/setup.sh tools/fetch_wheels.py tools/wheels.txt tools/wheels_arrow.txt tools/wheels_cuda.txt tools/
RUN mkdir -p /opt/trainer/deps-cuda && \
    if [ "$TRAINER_CUDA" = ON ]; then tools/setup.sh --cuda; else tools/setup.sh; fi && \
    rm -rf ~/.cache/trainer/downloads
COPY . .
# The revision, for `trainer --version` and the bill of materials: --build-arg TRAINER_REVISION=$(git rev-parse HEAD)
ARG TRAINER_REVISION=unknown
RUN cmake --preset release -DTRAINER_CUDA="$TRAINER_CUDA" -DTRAINER_REVISION="$TRAINER_REVISION" && \
    cmake --build --preset release && \
    mkdir -p bin share && cp build/release/bin/trainer build/release/bin/trainer-prepare \
                             build/release/bin/trainer-worker build/release/bin/trainer-tracker build/release/bin/libtrainer_*.so bin/ && \
    tools/packaging/sbom.py "$(sed -n 's/^project(trainer VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)" \
      "$TRAINER_REVISION" --wheels $([ "$TRAINER_CUDA" != ON ] || echo --cuda) --libraries \
      $(ldd bin/trainer* | awk '$2 == "=>" && $3 ~ /^\/(usr\/)?lib\// {print $3}' | sort -u) > share/sbom.spdx.json && \
    rm -rf $(ls -d /opt/trainer/deps-cuda/nvidia/cu13/* | grep -v /lib$) /opt/trainer/deps-cuda/nvidia/nccl/include

FROM debian:12
LABEL org.opencontainers.image.title=trainer
LABEL org.opencontainers.image.description="Trains transformer models from one YAML file"
ARG TRAINER_REVISION=unknown
LABEL org.opencontainers.image.revision=$TRAINER_REVISION
RUN apt-get update && \
    apt-get install -y --no-install-recommends ca-certificates libcurl4 libdw1 libfmt9 libopenmpi3 libpcre2-8-0 libsentencepiece0 libspdlog1.10 libssl3 libutf8proc2 libxxhash0 libyaml-cpp0.7 libzstd1 openmpi-bin tini zlib1g && \
    rm -rf /var/lib/apt/lists/* && \
    useradd --create-home trainer
# The programs find these libraries by the path they were linked with.
COPY --from=build /opt/trainer/deps/torch/lib /opt/trainer/deps/torch/lib
COPY --from=build /opt/trainer/deps/nvidia /opt/trainer/deps/nvidia
COPY --from=build /opt/trainer/deps-arrow/pyarrow/*.so.* /opt/trainer/deps-arrow/pyarrow/
COPY --from=build /opt/trainer/deps-cuda /opt/trainer/deps-cuda
COPY --from=build /src/bin /opt/trainer/bin
COPY --from=build /src/share /opt/trainer/share
ENV PATH=/opt/trainer/bin:$PATH
# For NVIDIA's container runtime, if there is one.
ENV NVIDIA_VISIBLE_DEVICES=all
ENV NVIDIA_DRIVER_CAPABILITIES=compute,utility
USER trainer
WORKDIR /home/trainer
COPY --chown=trainer:trainer configs configs
COPY --chown=trainer:trainer data/examples data/examples
# As process 1, tini forwards signals and reaps processes whose parents have ended.
ENTRYPOINT ["tini", "--", "trainer"]
CMD ["--help"]
