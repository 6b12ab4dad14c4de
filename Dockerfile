# docker build -t dsprep .                                           dsprep alone
# docker build -t dsprep --build-arg EXTRAS=parquet,tensorflow .     with extras
# docker run --rm -v "$PWD:/data" dsprep pack images shards --to webdataset
#
# As it stands, this is also an image of a SageMaker Processing job: its ContainerArguments are those of dsprep.
FROM python:3.11-slim AS build
COPY . /src
RUN pip wheel --no-deps --wheel-dir /wheels /src

FROM python:3.11-slim
ARG EXTRAS=
COPY --from=build /wheels /wheels
RUN set -eu; wheel=$(echo /wheels/*.whl); \
    pip install --no-cache-dir "$wheel${EXTRAS:+[$EXTRAS]}" && rm -r /wheels
WORKDIR /data
ENTRYPOINT ["dsprep"]
CMD ["--help"]
