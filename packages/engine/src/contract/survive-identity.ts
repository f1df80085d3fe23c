import { inContext } from './survive-item.ts'

export const identityThatSurvives = inContext('identity', {
  'signal handlers, ignored signals and interval timers': {
    setUp: `
      import signal
      got = []
      def handler(number, frame): got.append(number)
      signal.signal(signal.SIGUSR1, handler); signal.signal(signal.SIGHUP, signal.SIG_IGN)
      signal.signal(signal.SIGVTALRM, lambda *_: got.append("timer"))
      signal.setitimer(signal.ITIMER_VIRTUAL, 1000, 500)
    `,
    check: `
      assert signal.getsignal(signal.SIGUSR1) is handler and signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
      n = len(got)
      os.kill(os.getpid(), signal.SIGHUP); os.kill(os.getpid(), signal.SIGUSR1)
      until(lambda: len(got) > n)
      assert set(got) == {signal.SIGUSR1}
      value, interval = signal.getitimer(signal.ITIMER_VIRTUAL)
      assert 0 < value < 1001 and interval == 500, value
    `,
  },
  'umask, resource limits, priority and CPU affinity': {
    setUp: `
      import resource
      os.umask(0o027)
      resource.setrlimit(resource.RLIMIT_NOFILE, (777, 888)); resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 40, 1 << 41))
      os.nice(5)
      os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
      open("/proc/self/oom_score_adj", "w").write("321")
      cpus = os.sched_getaffinity(0)
    `,
    check: `
      before = os.umask(0o027)
      assert before == 0o027, before
      assert resource.getrlimit(resource.RLIMIT_NOFILE) == (777, 888)
      assert resource.getrlimit(resource.RLIMIT_FSIZE) == (1 << 40, 1 << 41), resource.getrlimit(resource.RLIMIT_FSIZE)
      assert os.nice(0) == 5 and os.sched_getscheduler(0) == os.SCHED_BATCH
      assert open("/proc/self/oom_score_adj").read() == "321\\n"
      assert os.sched_getaffinity(0) == cpus
    `,
  },
  'environment, current directory, arguments and name': {
    setUp: `
      os.makedirs("/root/here/deep"); os.chdir("/root/here/deep")
      os.environ["MINE"] = "set inside"
      inherited = open("/proc/self/environ").read(); arguments = open("/proc/self/cmdline").read()
      executable = os.readlink("/proc/self/exe")
      open("/proc/self/comm", "w").write("renamed")
    `,
    check: `
      assert os.getcwd() == "/root/here/deep" == os.readlink("/proc/self/cwd")
      assert os.environ["MINE"] == "set inside" and os.popen("echo $MINE; pwd").read() == "set inside\\n/root/here/deep\\n"
      assert open("/proc/self/environ").read() == inherited and open("/proc/self/cmdline").read() == arguments
      assert os.readlink("/proc/self/exe") == executable and open("/proc/self/comm").read() == "renamed\\n"
    `,
  },
  'process ids, groups and sessions': {
    setUp: `
      import subprocess
      leader = subprocess.Popen(["sh", "-c", "sleep 1000 & sleep 1000 & wait"], start_new_session=True)
      def members():
          found = []
          for pid in filter(str.isdigit, os.listdir("/proc")):
              try: fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
              except OSError: continue
              if int(fields[3]) == leader.pid: found.append((pid, *fields[1:4]))
          return sorted(found)
      until(lambda: len(members()) == 3)
      family, own = members(), (os.getpid(), os.getppid(), os.getpgid(0), os.getsid(0))
    `,
    check: `
      assert members() == family and (os.getpid(), os.getppid(), os.getpgid(0), os.getsid(0)) == own
    `,
  },
  'another user, with groups, capabilities and the ban on new privileges': {
    setUp: `
      import subprocess
      show = "import os; print(os.getresuid(), os.getresgid(), os.getgroups())\\nprint([l for l in open('/proc/self/status') if l.startswith(('Cap', 'NoNew', 'Seccomp:'))])"
      code = f"import sys\\nfor _ in sys.stdin:\\n  exec({show!r}); sys.stdout.flush()"
      child = subprocess.Popen([sys.executable, "-c", code], stdin=-1, stdout=-1, text=True, bufsize=1, user="user", group="user", extra_groups=[4, 27])
      def ask():
          child.stdin.write("\\n")
          return child.stdout.readline() + child.stdout.readline()
      before = ask()
      assert "[4, 27]" in before and "Seccomp:" in before, before
      mine = [line for line in open("/proc/self/status") if line.startswith(("Cap", "NoNew", "Seccomp:"))]
    `,
    check: `
      assert ask() == before
      now = [line for line in open("/proc/self/status") if line.startswith(("Cap", "NoNew", "Seccomp:"))]
      assert now == mine, (now, mine)
    `,
  },
})
