# One image for every process; `runspine serve NAME` picks the one. Targets:
#   service      orchestrator, telemetry, artifacts, dashboard: no torch
#   worker       a worker with the runners builtin and sb3, evaluation and replay, on the CPU
#   worker-cuda  the same with torch for CUDA
#   worker-more  the worker, and a virtualenv each for the runners whose needs differ
#
# Packages are installed by SHA-256 (deploy/requirements), torch by version from the index that is given.
# No feature of BuildKit is used, so it builds with any engine. Package sources are set by build arguments
# (pip reads PIP_* by itself); none of them stays in the image.
ARG PYTHON_IMAGE=python:3.11.15-slim-bookworm@sha256:d29f48a31a8b408ed19272ca1e7b10ebae13b240a27e862d3d4217c528e2e0c3

FROM ${PYTHON_IMAGE} AS base
ENV PATH=/opt/runspine/bin:${PATH} \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    RUNSPINE_METRICS_ADDRESS=0.0.0.0:9100 \
    RUNSPINE_LOG_FORMAT=json
# A number above those of distributions, so that it means nobody on the host.
RUN groupadd --gid 10001 runspine \
 && useradd --uid 10001 --gid 10001 --home-dir /var/lib/runspine --create-home --shell /usr/sbin/nologin runspine \
 && chmod 0700 /var/lib/runspine

# --- virtualenvs: dependencies first, so that a change of the source does not fetch torch again ---
FROM base AS builder
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
ARG PIP_FIND_LINKS
ARG PIP_NO_INDEX
# Arguments end with their stage, variables go on to the stages below; pip passes over those that are empty.
ENV PIP_NO_CACHE_DIR=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_INDEX_URL=${PIP_INDEX_URL} \
    PIP_EXTRA_INDEX_URL=${PIP_EXTRA_INDEX_URL} \
    PIP_FIND_LINKS=${PIP_FIND_LINKS} \
    PIP_NO_INDEX=${PIP_NO_INDEX}
WORKDIR /src
RUN python3 -m venv /opt/runspine
COPY pyproject.toml constraints.txt deploy/requirements/*.txt ./
# Enough of a package for pip to learn the dependencies; the real one replaces it below.
RUN mkdir runspine services && touch README.md LICENSE && echo '__version__ = "0"' > runspine/__init__.py

FROM builder AS service-venv
RUN pip install --no-deps --require-hashes -r service.txt
COPY . .
RUN rm -rf build *.egg-info && pip install --no-deps --no-build-isolation . && pip check

FROM base AS service
ARG VERSION=0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="runspine" \
      org.opencontainers.image.description="Runspine services" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
COPY --from=service-venv /opt/runspine /opt/runspine
WORKDIR /var/lib/runspine
USER 10001:10001
# Without site-packages this costs a few milliseconds, ten times a minute.
COPY runspine/healthcheck.py /opt/healthcheck.py
HEALTHCHECK --interval=10s --timeout=10s --start-period=300s --retries=4 CMD ["python3", "-IS", "/opt/healthcheck.py"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["runspine"]
CMD ["--help"]

FROM builder AS worker-venv
# Where torch comes from: an index of CPU builds keeps the image two gigabytes smaller.
ARG TORCH_INDEX_URL
RUN pip install --no-deps --require-hashes -r worker.txt \
 && pip install -c constraints.txt ${TORCH_INDEX_URL:+--extra-index-url "$TORCH_INDEX_URL"} torch
COPY . .
RUN rm -rf build *.egg-info && pip install --no-deps --no-build-isolation . && pip check

FROM base AS worker
ARG VERSION=0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="runspine-worker" \
      org.opencontainers.image.description="Runspine worker with the runners builtin and sb3" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
COPY --from=worker-venv /opt/runspine /opt/runspine
COPY --chown=10001:10001 examples /opt/examples
ENV RUNSPINE_WORKER_DIR=/var/lib/runspine/worker
WORKDIR /var/lib/runspine
USER 10001:10001
# Without site-packages this costs a few milliseconds, ten times a minute.
COPY runspine/healthcheck.py /opt/healthcheck.py
HEALTHCHECK --interval=10s --timeout=10s --start-period=300s --retries=4 CMD ["python3", "-IS", "/opt/healthcheck.py"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["runspine"]
CMD ["serve", "worker"]

FROM builder AS worker-cuda-venv
ARG TORCH_CUDA_INDEX_URL
# torch's wheels bring the CUDA libraries with them; the driver comes from the host.
RUN pip install --no-deps --require-hashes -r worker.txt \
 && pip install -c constraints.txt ${TORCH_CUDA_INDEX_URL:+--index-url "$TORCH_CUDA_INDEX_URL"} torch
COPY . .
RUN rm -rf build *.egg-info && pip install --no-deps --no-build-isolation . && pip check

FROM worker AS worker-cuda
LABEL org.opencontainers.image.description="Runspine worker with torch for CUDA"
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
COPY --from=worker-cuda-venv /opt/runspine /opt/runspine

FROM builder AS more-venvs
RUN python3 -m venv /opt/runners/cleanrl && /opt/runners/cleanrl/bin/pip install -c constraints.txt ".[cleanrl]" \
 && python3 -m venv /opt/runners/spade && /opt/runners/spade/bin/pip install -c constraints.txt ".[spade]"
COPY . .
RUN rm -rf build *.egg-info && for venv in /opt/runners/*; do "$venv/bin/pip" install --no-deps . || exit 1; done

FROM worker AS worker-more
LABEL org.opencontainers.image.description="Runspine worker with every runner"
COPY --from=more-venvs /opt/runners /opt/runners
ENV RUNSPINE_RUNNER_PYTHON_CLEANRL=/opt/runners/cleanrl/bin/python \
    RUNSPINE_RUNNER_PYTHON_SPADE_BDI=/opt/runners/spade/bin/python
