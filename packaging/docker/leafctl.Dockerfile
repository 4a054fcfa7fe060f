# leafctl, to serve ids over HTTP; any other command can be given instead.
#
#     docker build -f packaging/docker/leafctl.Dockerfile -t leafctl target/packages
#     docker run --rm leafctl status --help
#
# TLS to a server whose certificate a public authority has signed needs the certificates of
# the host: -v /etc/ssl/certs:/usr/lib/ssl/certs:ro
ARG BASE=docker.io/library/debian:bookworm-slim
FROM ${BASE}

# Without the package's dependency on systemd, which makes the user elsewhere.
RUN --mount=type=bind,target=/packages \
    dpkg-deb --fsys-tarfile /packages/leafctl_*.deb | \
        tar -x -C / ./usr/bin/leafctl ./usr/share/doc/leafctl && \
    groupadd --system --gid 65532 leafctl && \
    useradd --system --uid 65532 --gid leafctl --home-dir /var/lib/leafctl --shell /usr/sbin/nologin leafctl && \
    install -d -o leafctl -g leafctl -m 700 /var/lib/leafctl

# A number, by which Kubernetes sees that it is not root.
USER 65532:65532
EXPOSE 8080
STOPSIGNAL SIGTERM
ENTRYPOINT ["leafctl"]
# It starts only with --tokens or --no-auth beside this.
CMD ["serve", "--listen=0.0.0.0:8080"]
# The shell's own connections: nothing else here speaks HTTP. Docker's form of a command in
# one string is run by sh, which has none.
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 \
    CMD ["bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/8080 && printf 'GET /readyz HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n\\r\\n' >&3 && read -r _ status _ <&3 && [ \"$status\" = 200 ]"]
