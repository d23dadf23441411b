# The image of compose.yaml: assay with Kafka, as a plain user. Versions are those that the tests ran with.
FROM python:3.13-slim

RUN useradd --uid 10001 --create-home assay
WORKDIR /opt/assay
COPY requirements/dev.txt requirements/dev.txt
RUN sed -nE 's/^([A-Za-z0-9._-]+)(\[[^]]*\])?==([^ ;]+).*/\1==\3/p' requirements/dev.txt > constraints.txt
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN PIP_CONSTRAINT=/opt/assay/constraints.txt pip install --no-cache-dir '.[kafka,parquet,prices,zstd]' \
    && rm -rf src

USER assay
WORKDIR /project
ENTRYPOINT ["assay"]
