"""The lab: a stand-in world for Tidegate in network namespaces, without any way out.

    agent1  10.77.1.17  fd77:1::17 ──veth── eth1 ┐
            (agent "research")                   │  gateway       eth0 ──veth── internet
    agent2  10.77.2.17  fd77:2::17 ──veth── eth2 ┘  10.77.N.1     185.199.0.2   185.199.0.1
            (agent "builder")                       fd77:N::1     2a0e:7700::2  2a0e:7700::1

    internet, addresses on its loopback (public-looking, since private ones are refused):
      185.199.53.1  2a0e:7700:53::1   NSD, authority for the zones below
      185.199.53.2  2a0e:7700:53::2   unbound, first upstream of the gateway
      185.199.53.4  2a0e:7700:53::4   unbound, second upstream
      185.199.53.9  2a0e:7700:53::9   the same unbound as "somebody else's resolver" (53 and 853)
      185.199.10.*  2a0e:7700:10::*   web servers (nginx: 80, 443, 8443; certificates by the lab CA)
      185.199.32.0/19  2a0e:7700:20::/64  5,000 hosts h0..h4999.rounds.search.example, one address each
      185.199.66.*  2a0e:7700:66::*   a place nobody may reach; counts who tries

Everything of one lab lives under /run/tidegate-lab/NAME and in namespaces tg-NAME-*; several labs run
side by side under different names.
"""
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RUN = Path("/run/tidegate-lab")
ROLES = ("agent1", "agent2", "gateway", "internet")
UID_BASE = 64700
READY_SECONDS = 15

NSD4, NSD6 = "185.199.53.1", "2a0e:7700:53::1"
UPSTREAM4, UPSTREAM6 = "185.199.53.2", "2a0e:7700:53::2"
UPSTREAM_B4, UPSTREAM_B6 = "185.199.53.4", "2a0e:7700:53::4"
FOREIGN4, FOREIGN6 = "185.199.53.9", "2a0e:7700:53::9"
EVIL4, EVIL6 = "185.199.66.6", "2a0e:7700:66::6"
AGENT4 = {"agent1": "10.77.1.17", "agent2": "10.77.2.17"}
AGENT6 = {"agent1": "fd77:1::17", "agent2": "fd77:2::17"}
GATEWAY4 = {"agent1": "10.77.1.1", "agent2": "10.77.2.1"}
GATEWAY6 = {"agent1": "fd77:1::1", "agent2": "fd77:2::1"}
UPLINK4, UPLINK6 = "185.199.0.2", "2a0e:7700::2"

# host part -> used for both families: 185.199.10.N and 2a0e:7700:10::N (N in decimal digits)
WEB = {"api": 10, "www": 10, "slow": 11, "cdn": 12, "files": 20, "code": 30}
MANY = range(100, 220)


def web4(n):
    return f"185.199.10.{n}"


def web6(n):
    return f"2a0e:7700:10::{n}"


ROUNDS = 5000


def rounds4(i):
    return f"185.199.{32 + i // 250}.{1 + i % 250}"


def rounds6(i):
    return f"2a0e:7700:20::{i + 1:x}"


def both(owner, n, ttl=300):
    return f"{owner} {ttl} IN A {web4(n)}\n{owner} {ttl} IN AAAA {web6(n)}\n"


def zones():
    """Zone name -> records. Owners are relative to the zone."""
    chain = "".join(f"c{i} 300 IN CNAME c{i + 1}\n" for i in range(1, 12)) + both("c12", 10)
    many = "".join(both("many", n) for n in MANY)
    rounds = "".join(f"h{i}.rounds 300 IN A {rounds4(i)}\nh{i}.rounds 300 IN AAAA {rounds6(i)}\n"
                     for i in range(ROUNDS))
    return {
        "search.example": rounds + both("api", 10)
        + "www 300 IN CNAME api\n"
        + "partner 300 IN CNAME files.pkg.example.\n"
        + "hop 300 IN CNAME drop.paste.example.\n"
        + "inside 300 IN A 10.0.0.5\nmeta 300 IN A 169.254.169.254\n"
        + "mixed 300 IN A 185.199.10.10\nmixed 300 IN A 192.168.1.1\n"
        + "v4only 300 IN A 185.199.10.10\n"
        + both("slow", 11, 5) + both("short", 11, 5) + both("zero", 11, 0) + both("*.cdn", 12)
        + f"long 864000 IN A {web4(10)}\n"
        + "mail 300 IN MX 10 api\nmail 300 IN A 185.199.10.10\n"
        + chain,
        "pkg.example": both("files", 20) + many + "large 300 IN TXT " + " ".join(['"' + "x" * 250 + '"'] * 14) + "\n",
        "git.example": both("code", 30),
        "paste.example": both("drop", 10) + both("new", 10),
        "evil.example": f"steal 300 IN A {EVIL4}\nsteal 300 IN AAAA {EVIL6}\n"
        + f"* 300 IN A {EVIL4}\n* 300 IN AAAA {EVIL6}\n",
    }


def gateway_yaml(d):
    return f"""\
name: lab
agents:
  - interface: eth1
    subnets: [10.77.1.0/24, "fd77:1::/64"]
  - interface: eth2
    subnets: [10.77.2.0/24, "fd77:2::/64"]
uplink: {{ interface: eth0, masquerade: true }}
upstreams:
  - {{ address: {UPSTREAM4} }}
  - {{ address: {UPSTREAM_B4} }}
dns: {{ deny: nxdomain, min_lifetime: 5s, max_lifetime: 1h, grace: 2s }}
log: {{ directory: {d}/log, when_full: refuse }}
policy: {d}/etc/policy
state: {d}/state
runtime: {d}/run
limits: {{ openings_per_client: 20000, addresses_per_name: 256, queries_per_second: 5000, pending_per_client: 64 }}
"""


def policy_files():
    """Relative path -> text: two agents with different tools."""
    return {
        "agents.yaml": """\
agents:
  - { agent: research, sources: [10.77.1.17, "fd77:1::17"], tools: [web-search, packages], mode: enforce }
  - { agent: builder, sources: [10.77.2.17, "fd77:2::17"], tools: [git], mode: enforce }
deny: [ "*.paste.example" ]
""",
        "tools/web-search.yaml": """\
tool: web-search
version: 1.4.2
owner: search-team@example.com
purpose: query the search API
endpoints:
  - { name: api.search.example, protocol: https, data: public }
  - { name: www.search.example, protocol: https, data: public }
  - { name: partner.search.example, protocol: https, data: public }
  - { name: hop.search.example, protocol: https, data: public }
  - { name: inside.search.example, protocol: https, data: public }
  - { name: meta.search.example, protocol: https, data: public }
  - { name: mixed.search.example, protocol: https, data: public }
  - { name: v4only.search.example, protocol: https, data: public }
  - { name: slow.search.example, protocol: https, data: public }
  - { name: short.search.example, protocol: https, data: public }
  - { name: zero.search.example, protocol: https, data: public }
  - { name: long.search.example, protocol: https, data: public }
  - { name: c1.search.example, protocol: https, data: public }
  - { name: c4.search.example, protocol: https, data: public }
  - { name: "*.rounds.search.example", protocol: https, data: public }
  - { name: "*.cdn.search.example", protocol: tcp, port: 8443, data: internal }
  - { name: mail.search.example, types: [MX, A, AAAA], protocol: https, data: internal }
""",
        "tools/packages.yaml": """\
tool: packages
version: 2.0.0
owner: build-team@example.com
purpose: fetch released packages
endpoints:
  - { name: files.pkg.example, protocol: https, data: public }
  - { name: many.pkg.example, protocol: https, data: public }
  - { name: large.pkg.example, types: [TXT], protocol: https, data: public }
""",
        "tools/git.yaml": """\
tool: git
version: 2.39.5
owner: build-team@example.com
purpose: clone the project
endpoints:
  - { name: code.git.example, protocol: https, data: internal }
""",
    }


class LabError(Exception):
    pass


def sh(*argv, check=True, **kw):
    p = subprocess.run([str(a) for a in argv], capture_output=True, text=True, **kw)
    if check and p.returncode != 0:
        raise LabError(f"{' '.join(map(str, argv))}: {(p.stderr or p.stdout).strip()}")
    return p


class Lab:
    def __init__(self, name="lab", binaries=None):
        if not name.isalnum() or len(name) > 16:
            raise LabError(f"lab name {name!r}: letters and digits only, at most 16")
        self.name = name
        self.dir = RUN / name
        self.bin = Path(binaries or os.environ.get("TIDEGATE_BIN") or ROOT / "build/bin")

    # ---- topology

    def ns(self, role):
        return f"tg-{self.name}-{role}"

    def ip(self, role, *args):
        return sh("ip", "-n", self.ns(role), *args)

    def _link(self, left, left_if, right, right_if):
        sh("ip", "-n", self.ns(left), "link", "add", left_if, "type", "veth", "peer", "name",
           right_if, "netns", self.ns(right))

    def _namespaces(self):
        for role in ROLES:
            sh("ip", "netns", "add", self.ns(role))
            self.ip(role, "link", "set", "lo", "up")
            self.sysctl(role, "net.ipv6.conf.all.accept_dad=0", "net.ipv6.conf.default.accept_dad=0",
                        "net.ipv6.conf.default.router_solicitations=0")
        self._link("agent1", "eth0", "gateway", "eth1")
        self._link("agent2", "eth0", "gateway", "eth2")
        self._link("internet", "eth0", "gateway", "eth0")
        for i, agent in enumerate(("agent1", "agent2"), 1):
            self._address(agent, "eth0", f"{AGENT4[agent]}/24", f"{AGENT6[agent]}/64")
            self._address("gateway", f"eth{i}", f"{GATEWAY4[agent]}/24", f"{GATEWAY6[agent]}/64")
            self.ip(agent, "route", "add", "default", "via", GATEWAY4[agent])
            self.ip(agent, "-6", "route", "add", "default", "via", GATEWAY6[agent])
            etc = Path("/etc/netns") / self.ns(agent)
            etc.mkdir(parents=True, exist_ok=True)
            (etc / "resolv.conf").write_text(
                f"nameserver {GATEWAY4[agent]}\nnameserver {GATEWAY6[agent]}\n")
        self._address("gateway", "eth0", f"{UPLINK4}/24", f"{UPLINK6}/64")
        self.ip("gateway", "route", "add", "default", "via", "185.199.0.1")
        self.ip("gateway", "-6", "route", "add", "default", "via", "2a0e:7700::1")
        self._address("internet", "eth0", "185.199.0.1/24", "2a0e:7700::1/64")
        self._address("internet", "lo", *(
            [f"{a}/32" for a in (NSD4, UPSTREAM4, UPSTREAM_B4, FOREIGN4, EVIL4)]
            + [f"{a}/128" for a in (NSD6, UPSTREAM6, UPSTREAM_B6, FOREIGN6, EVIL6)]
            + [f"{web4(n)}/32" for n in sorted(set(WEB.values()) | set(MANY))]
            + [f"{web6(n)}/128" for n in sorted(set(WEB.values()) | set(MANY))]))
        self.ip("internet", "route", "add", "local", "185.199.32.0/19", "dev", "lo")
        self.ip("internet", "-6", "route", "add", "local", "2a0e:7700:20::/64", "dev", "lo")
        # the way back to agents exists, so that what is not answered was dropped by the gateway
        self.ip("internet", "route", "add", "10.77.0.0/16", "via", UPLINK4)
        self.ip("internet", "-6", "route", "add", "fd77::/16", "via", UPLINK6)

    def _address(self, role, interface, *addresses):
        batch = "".join(f"address add {a} dev {interface}{' nodad' if ':' in a else ''}\n"
                        for a in addresses) + f"link set {interface} up\n"
        p = subprocess.run(["ip", "-n", self.ns(role), "-batch", "-"], input=batch, text=True,
                           capture_output=True)
        if p.returncode:
            raise LabError(f"addresses of {role}: {p.stderr.strip()}")

    def sysctl(self, role, *settings):
        sh("ip", "netns", "exec", self.ns(role), "sysctl", "-qw", *settings)

    # ---- processes

    def run(self, role, *argv, timeout=30, env=None, **kw):
        """Runs a command in a namespace to its end; never raises for its exit code."""
        try:
            return subprocess.run(["ip", "netns", "exec", self.ns(role), *map(str, argv)],
                                  capture_output=True, text=True, timeout=timeout,
                                  env=self.env(env), **kw)
        except subprocess.TimeoutExpired as e:
            def text(b):
                return b.decode(errors="replace") if isinstance(b, bytes) else b or ""
            return subprocess.CompletedProcess(argv, 124, text(e.stdout), text(e.stderr))

    def popen(self, role, *argv, env=None, **kw):
        return subprocess.Popen(["ip", "netns", "exec", self.ns(role), *map(str, argv)],
                                env=self.env(env), **kw)

    def env(self, more=None):
        ca = str(self.dir / "ca/ca.pem")
        return {**os.environ, "CURL_CA_BUNDLE": ca, "SSL_CERT_FILE": ca, "GIT_SSL_CAINFO": ca,
                "GIT_CONFIG_NOSYSTEM": "1", "HOME": "/nonexistent", "no_proxy": "*", **(more or {})}

    def _spawn(self, role, tag, *argv, **kw):
        """Starts a service of the lab; its output goes to NAME/tag.out, its pid is kept."""
        out = open(self.dir / f"{tag}.out", "ab")
        p = self.popen(role, *argv, stdout=out, stderr=out, stdin=subprocess.DEVNULL,
                       start_new_session=True, **kw)
        out.close()
        (self.dir / f"{tag}.pid").write_text(f"{p.pid}\n")
        return p

    def stop(self, tag, sig=signal.SIGTERM, seconds=5):
        """Ends a service by its pid and waits until it is gone."""
        pidfile = self.dir / f"{tag}.pid"
        if not pidfile.exists():
            return
        pid = int(pidfile.read_text())
        pidfile.unlink()
        try:
            os.kill(pid, sig)
        except ProcessLookupError:
            return
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                if os.waitpid(pid, os.WNOHANG)[0] == pid:
                    return
            except ChildProcessError:
                if not Path(f"/proc/{pid}").exists():
                    return
            time.sleep(0.02)
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    # ---- the internet

    def _certificates(self):
        ca = self.dir / "ca"
        ca.mkdir()
        names = ["*.search.example", "*.cdn.search.example", "*.pkg.example", "*.git.example",
                 "*.paste.example", "*.evil.example", "resolver.example"]
        # what strict verifiers ask for (RFC 5280 section 4.2.1)
        (ca / "ext").write_text("subjectAltName=" + ",".join(f"DNS:{n}" for n in names) + "\n"
                                "basicConstraints=CA:FALSE\nkeyUsage=digitalSignature\n"
                                "subjectKeyIdentifier=hash\nauthorityKeyIdentifier=keyid\n")
        ec = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
        sh("openssl", "req", "-x509", *ec, "-days", "2", "-subj", "/CN=Tidegate lab CA",
           "-addext", "keyUsage=critical,keyCertSign,cRLSign", "-keyout", ca / "ca.key", "-out", ca / "ca.pem")
        sh("openssl", "req", *ec, "-subj", "/CN=lab", "-keyout", ca / "server.key", "-out",
           ca / "server.csr")
        sh("openssl", "x509", "-req", "-days", "2", "-in", ca / "server.csr", "-CA", ca / "ca.pem",
           "-CAkey", ca / "ca.key", "-CAcreateserial", "-extfile", ca / "ext", "-out",
           ca / "server.pem")

    def _nsd(self):
        d = self.dir / "nsd"
        d.mkdir()
        conf = f"""server:
  ip-address: {NSD4}
  ip-address: {NSD6}
  username: ""
  zonesdir: "{d}"
  pidfile: "{d}/pid"
  xfrdfile: "{d}/xfrd"
  xfrdir: "{d}"
  zonelistfile: "{d}/zones"
  rrl-ratelimit: 0
  hide-version: yes
  server-count: 1
remote-control:
  control-enable: no
"""
        for zone, records in zones().items():
            (d / f"{zone}.zone").write_text(
                f"$ORIGIN {zone}.\n@ 300 IN SOA ns.{zone}. admin.{zone}. 1 3600 900 86400 30\n"
                f"@ 300 IN NS ns.{zone}.\nns 300 IN A {NSD4}\n{records}")
            conf += f"zone:\n  name: {zone}\n  zonefile: {zone}.zone\n"
        (d / "nsd.conf").write_text(conf)
        self._spawn("internet", "nsd", "nsd", "-d", "-c", d / "nsd.conf")

    def start_unbound(self, tag, addresses):
        d = self.dir / tag
        d.mkdir(exist_ok=True)
        conf = f"""server:
  do-daemonize: no
  username: ""
  chroot: ""
  directory: "{d}"
  pidfile: ""
  use-syslog: no
  module-config: "iterator"
  access-control: 0.0.0.0/0 allow
  access-control: ::/0 allow
  do-not-query-localhost: no
  num-threads: 1
  qname-minimisation: no
  tls-service-key: "{self.dir}/ca/server.key"
  tls-service-pem: "{self.dir}/ca/server.pem"
"""
        conf += "".join(f"  interface: {a}\n  interface: {a}@853\n" for a in addresses)
        conf += "remote-control:\n  control-enable: no\n"
        for zone in zones():
            conf += f'stub-zone:\n  name: "{zone}"\n  stub-addr: {NSD4}\n'
        (d / "unbound.conf").write_text(conf)
        self._spawn("internet", tag, "unbound", "-d", "-c", d / "unbound.conf")

    def start_upstreams(self):
        self.start_unbound("unbound-a", [UPSTREAM4, UPSTREAM6])
        self.start_unbound("unbound-b", [UPSTREAM_B4, UPSTREAM_B6, FOREIGN4, FOREIGN6])

    def _web(self):
        d = self.dir / "web"
        (d / "html").mkdir(parents=True)
        (d / "html/slow").write_bytes(b"tide" * 60000)  # 240 kB, sent at 20 kB/s: about 12 s
        (d / "html/package.tar").write_bytes(os.urandom(100000))
        self._git_repository(d / "html/project.git")
        tls = f"ssl_certificate {self.dir}/ca/server.pem; ssl_certificate_key {self.dir}/ca/server.key;"
        (d / "nginx.conf").write_text(f"""
daemon off; master_process off; user root; worker_processes 1;
pid {d}/pid; error_log {d}/error.log;
events {{ worker_connections 4096; }}
http {{
  access_log {d}/access.log; client_body_temp_path {d}/body; proxy_temp_path {d}/proxy;
  fastcgi_temp_path {d}/f; uwsgi_temp_path {d}/u; scgi_temp_path {d}/s;
  server {{
    listen 80 backlog=4096; listen [::]:80 ipv6only=on backlog=4096;
    listen 443 ssl backlog=4096; listen [::]:443 ssl ipv6only=on backlog=4096;
    listen 8443 ssl; listen [::]:8443 ssl ipv6only=on;
    {tls}
    root {d}/html;
    location = / {{ default_type text/plain; return 200 "hello from $host\\n"; }}
    location = /slow {{ limit_rate 20k; }}
  }}
}}
""")
        self._spawn("internet", "web", "nginx", "-p", d, "-c", d / "nginx.conf")

    def _git_repository(self, path):
        work = self.dir / "web/work"
        git = ["git", "-c", "init.defaultBranch=main", "-c", "user.name=lab", "-c", "user.email=lab@example"]
        env = {**os.environ, "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"}
        sh(*git, "init", "-q", work, env=env)
        (work / "README").write_text("a project to clone\n")
        sh(*git, "-C", work, "add", "README", env=env)
        sh(*git, "-C", work, "commit", "-qm", "first", env=env)
        sh(*git, "clone", "-q", "--bare", work, path, env=env)
        sh("git", "-C", path, "update-server-info", env=env)

    def _internet(self):
        self._certificates()
        self._nsd()
        self._web()
        self._spawn("internet", "echo", sys.executable, ROOT / "tools/lab/echo.py",
                    self.dir / "echo.log")
        self.start_upstreams()
        for server in (UPSTREAM4, UPSTREAM_B4):
            self._wait(lambda s=server: self.run("internet", "dig", "+time=1", "+tries=1", "+short",
                       f"@{s}", "api.search.example", timeout=5).stdout.strip() == web4(10),
                       f"resolver {server} to answer")
        self._wait(lambda: self.run("internet", "curl", "-s", f"http://{web4(10)}/").returncode == 0,
                   "the web server to answer")

    def _wait(self, done, what, seconds=READY_SECONDS):
        end = time.monotonic() + seconds
        while not done():
            if time.monotonic() > end:
                raise LabError(f"waited {seconds} s for {what}; see {self.dir}/*.out")
            time.sleep(0.05)

    # ---- the gateway

    @property
    def config(self):
        return self.dir / "etc/gateway.yaml"

    @property
    def policy(self):
        return self.dir / "etc/policy"

    @property
    def log(self):
        return self.dir / "log/tidegate.jsonl"

    def write_config(self, change=None, policy=None):
        """Writes configuration and policy; `change` maps the text of gateway.yaml."""
        text = gateway_yaml(self.dir)
        self.config.parent.mkdir(exist_ok=True)
        self.config.write_text(change(text) if change else text)
        for path, text in {**policy_files(), **(policy or {})}.items():
            target = self.policy / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)

    def start_gateway(self, wait=True):
        """Starts tidegated under a loop that stands in for the service manager (Restart=always)."""
        self._spawn("gateway", "gateway", sys.executable, ROOT / "tools/lab/respawn.py",
                    self.bin / "tidegated", "-c", self.config, "--uid-base", UID_BASE)
        if wait:
            self.wait_ready()

    def stop_gateway(self):
        self.stop("gateway", seconds=8)

    def wait_ready(self, seconds=READY_SECONDS):
        self._wait(lambda: self.status().get("ready"), "the gateway to be ready", seconds)

    def tidegate(self, *argv, timeout=20, role="gateway"):
        """The command line, pointed at this lab's gateway."""
        return self.run(role, self.bin / "tidegate", *argv, "--socket", self.dir / "run/control.sock",
                        timeout=timeout)

    def status(self):
        p = self.tidegate("status", "--json")
        try:
            return json.loads(p.stdout)
        except ValueError:
            return {}

    def openings(self, *filters):
        p = self.tidegate("openings", "--json", *filters)
        return json.loads(p.stdout) if p.stdout.strip() else []

    def pid(self, process):
        """Pid of tidegated ("supervisor") or one of its children ("core", "resolver", ...)."""
        want = "tidegated" if process == "supervisor" else f"tidegate-{process}"
        p = sh("ip", "netns", "pids", self.ns("gateway"))
        for pid in p.stdout.split():
            try:
                exe = os.readlink(f"/proc/{pid}/exe")
            except OSError:
                continue
            if os.path.basename(exe.removesuffix(" (deleted)")) == want:
                return int(pid)
        return None

    def records(self, **match):
        """Audit records (all rotated files) whose fields equal `match`."""
        out = []
        for path in sorted(self.log.parent.glob("tidegate*.jsonl"), key=lambda p: (p == self.log, p.name)):
            for line in path.read_text().splitlines():
                try:
                    record = json.loads(line)
                except ValueError:
                    continue
                if all(record.get(k) == v for k, v in match.items()):
                    out.append(record)
        return out

    def web_hits(self):
        path = self.dir / "web/access.log"
        return path.read_text().splitlines() if path.exists() else []

    def echo_hits(self):
        """What reached the echo hosts: lines "tcp|udp PORT from ADDRESS"."""
        path = self.dir / "echo.log"
        return path.read_text().splitlines() if path.exists() else []

    # ---- life

    def exists(self):
        return self.dir.exists() or any(Path(f"/run/netns/{self.ns(r)}").exists() for r in ROLES)

    def up(self, change=None, policy=None, gateway=True):
        if os.geteuid() != 0:
            raise LabError("the lab makes network namespaces: run it as root")
        if self.exists():
            raise LabError(f"lab {self.name} is up already (take it down with: tools/lab/lab down --name {self.name})")
        if not (self.bin / "tidegated").exists():
            raise LabError(f"{self.bin}/tidegated is missing: run make first")
        try:
            self.dir.mkdir(parents=True)
            self.dir.chmod(0o755)
            self._namespaces()
            self._internet()
            self.write_config(change, policy)
            if gateway:
                self.start_gateway()
        except BaseException:
            if not os.environ.get("LAB_KEEP"):
                self.down(keep_output=True)
            raise
        return self

    def down(self, keep_output=False):
        """Ends every process of this lab's namespaces and removes all traces. Safe to repeat."""
        self.stop_gateway()
        for sig, seconds in ((signal.SIGTERM, 2), (signal.SIGKILL, 2)):
            end = time.monotonic() + seconds
            while (pids := self._pids()) and time.monotonic() < end:
                for pid in pids:
                    try:
                        os.kill(pid, sig)
                    except ProcessLookupError:
                        pass
                time.sleep(0.05)
                self._reap()
        for role in ROLES:
            if Path(f"/run/netns/{self.ns(role)}").exists():
                sh("ip", "netns", "del", self.ns(role), check=False)
            shutil.rmtree(Path("/etc/netns") / self.ns(role), ignore_errors=True)
        if Path("/etc/netns").is_dir() and not os.listdir("/etc/netns"):
            os.rmdir("/etc/netns")
        if keep_output:
            self._show_output()
        shutil.rmtree(self.dir, ignore_errors=True)
        if RUN.is_dir() and not os.listdir(RUN):
            RUN.rmdir()

    def _show_output(self):
        outputs = {p.stem: p for p in self.dir.glob("*.out")}
        if "gateway" in outputs:  # the internet did come up: it is of no interest
            outputs = {"gateway": outputs["gateway"]}
        for tag, path in sorted(outputs.items()):
            for line in path.read_text(errors="replace").splitlines()[-25:]:
                print(f"  {tag}: {line}", file=sys.stderr)

    def _pids(self):
        pids = []
        for role in ROLES:
            if Path(f"/run/netns/{self.ns(role)}").exists():
                pids += [int(p) for p in sh("ip", "netns", "pids", self.ns(role), check=False).stdout.split()]
        return [p for p in pids if p != os.getpid() and not self._zombie(p)]

    @staticmethod
    def _zombie(pid):
        try:
            return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
        except OSError:
            return True

    @staticmethod
    def _reap():
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            pass


def labs():
    names = {p.name for p in RUN.iterdir()} if RUN.is_dir() else set()
    for p in Path("/run/netns").glob("tg-*-gateway") if Path("/run/netns").is_dir() else []:
        names.add(p.name[3:-len("-gateway")])
    return [Lab(n) for n in sorted(names)]
