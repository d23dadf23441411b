#!/bin/sh
# Puts the jars of the Apache Kafka server named in pom.xml into .kafka/jars (43 MB to download, once).
# Does nothing when they are there already. Needs Maven, and Java 17 or later to run them.
set -eu
pom=tools/apache-kafka/pom.xml
target=.kafka

if cmp -s "$pom" "$target/pom.xml"; then
    exit 0
fi
for program in java mvn; do
    if ! command -v "$program" >/dev/null 2>&1; then
        echo "Apache Kafka needs $program, which is not here: install Java 17 or later, and Maven." >&2
        exit 1
    fi
done
mkdir -p "$target"
echo '*' >"$target/.gitignore"
echo "Fetching the Apache Kafka server into $target (43 MB to download) ..."
rm -rf "$target/jars.new"
mvn -q -B -Dstyle.color=never -f "$pom" dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$PWD/$target/jars.new"
rm -rf "$target/jars"
mv "$target/jars.new" "$target/jars"
cp "$pom" "$target/pom.xml"
