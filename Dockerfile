# The images of Liqo, for those who build with Docker: one stage per image.
#
#   docker buildx build --platform linux/amd64,linux/arm64 --target fabric --build-arg VERSION=v1.2.3 --tag registry.example.org/liqo/fabric:v1.2.3 --push .
#
# make release builds the same images without Docker, with the same bytes on every machine.

FROM --platform=$BUILDPLATFORM golang:1.26 AS build
ARG TARGETOS TARGETARCH VERSION=v0.0.0-dev
ENV CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH GOFLAGS="-trimpath -buildvcs=false"
WORKDIR /src
COPY . .
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    mkdir -p /out/tmp && chmod 1777 /out/tmp && \
    go build -ldflags "-s -w -buildid= -X liqo.io/liqo/internal/version.Version=$VERSION" -o /out/ ./cmd/... && \
    cd /src/playground && go build -ldflags "-s -w -buildid=" -o /out/ ./testserver && \
    cd /src/tools/restic && go build -ldflags "-s -w -buildid=" -o /out/ github.com/restic/restic/cmd/restic github.com/restic/rest-server/cmd/rest-server

FROM scratch AS controller-manager
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /out/tmp /tmp
COPY --from=build /out/controller-manager /
USER 65532:65532
ENTRYPOINT ["/controller-manager"]

FROM scratch AS fabric
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /out/tmp /tmp
COPY --from=build /out/fabric /
USER 65532:65532
ENTRYPOINT ["/fabric"]

FROM scratch AS gateway
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /out/tmp /tmp
COPY --from=build /out/gateway /out/keep /
USER 65532:65532
ENTRYPOINT ["/gateway"]

FROM scratch AS proxy
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /out/tmp /tmp
COPY --from=build /out/proxy /
USER 65532:65532
ENTRYPOINT ["/proxy"]

# Root, since it serves port 80.
FROM scratch AS testserver
COPY --from=build /out/tmp /tmp
COPY --from=build /out/testserver /
USER 0:0
ENTRYPOINT ["/testserver"]

FROM scratch AS virtual-kubelet
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /out/tmp /tmp
COPY --from=build /out/virtual-kubelet /
USER 65532:65532
ENTRYPOINT ["/virtual-kubelet"]

# Root, since it reads all files and gives them their owners.
FROM scratch AS volume-mover
COPY --from=build /out/tmp /tmp
COPY --from=build /out/volume-mover /out/restic /out/rest-server /
USER 0:0
ENTRYPOINT ["/volume-mover"]
