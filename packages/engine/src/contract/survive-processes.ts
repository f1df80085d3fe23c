import { inContext } from './survive-item.ts'

export const processesThatSurvive = inContext('processes', {
  'child processes with pipes both ways, and the data in the pipes': {
    setUp: `
      import subprocess
      code = "import sys; n = 0\\nfor line in sys.stdin:\\n  n += 1; print(n, line.strip().upper(), flush=True)"
      child = subprocess.Popen([sys.executable, "-c", code], stdin=-1, stdout=-1, stderr=-1, text=True, bufsize=1)
      pid, n = child.pid, 1
      child.stdin.write("first\\n")
      assert child.stdout.readline() == "1 FIRST\\n"
      reader, writer = os.pipe()
      os.write(writer, b"unread")
    `,
    check: `
      assert child.poll() is None and child.pid == pid
      n += 1
      child.stdin.write("more\\n")
      assert child.stdout.readline() == f"{n} MORE\\n"
      assert os.read(reader, 100) == b"unread"
      os.write(writer, b"unread")
    `,
  },
  'a daemon whose parents are gone': {
    setUp: `
      import subprocess
      code = """
      import os, sys
      os.mkfifo("/tmp/daemon-in"); os.mkfifo("/tmp/daemon-out")
      if os.fork(): os._exit(0)
      os.setsid()
      if os.fork(): os._exit(0)
      os.chdir("/")
      for fd in range(3): os.close(fd)
      n = 0
      while True:
          with open("/tmp/daemon-in") as asked: question = asked.read()
          n += 1
          with open("/tmp/daemon-out", "w") as answer: answer.write(f"{question} {n} {os.getpid()} {os.getppid()} {os.getsid(0)}")
      """
      import textwrap
      subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True)
      def ask(question):
          with open("/tmp/daemon-in", "w") as asked: asked.write(question)
          with open("/tmp/daemon-out") as answer: return answer.read().split()
      first, n = ask("who"), 1
      # Its parent may still be on its way out.
      while first[3] == first[4]: first, n = ask("who"), n + 1
    `,
    check: `
      n += 1
      answer = ask("still")
      assert answer == ["still", str(n), *first[2:]], (answer, first)
    `,
  },
  'a child that has ended but was not waited for, and one that is stopped': {
    setUp: `
      import signal, subprocess
      ended = [os.posix_spawn("/bin/sh", ["sh", "-c", "exit 7"], os.environ) for _ in range(3)]
      stopped = subprocess.Popen(["sleep", "1000"])
      stopped.send_signal(signal.SIGSTOP)
      state = lambda pid: open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[0]
      until(lambda: state(stopped.pid) == "T" and all(state(each) == "Z" for each in ended))
    `,
    check: `
      assert [state(each) for each in ended] == ["Z"] * len(ended)
      assert os.waitstatus_to_exitcode(os.waitpid(ended.pop(), 0)[1]) == 7
      assert state(stopped.pid) == "T", state(stopped.pid)
      stopped.send_signal(signal.SIGCONT)
      until(lambda: state(stopped.pid) == "S")
      stopped.send_signal(signal.SIGSTOP)
      until(lambda: state(stopped.pid) == "T")
    `,
  },
  'a multiprocessing pool, its queues and locks': {
    setUp: `
      import multiprocessing
      pool = multiprocessing.Pool(2)
      pids = sorted(worker.pid for worker in pool._pool)
      assert pool.map(abs, range(-3, 0)) == [3, 2, 1]
      counter = multiprocessing.Value("i", 0)
      questions, answers = multiprocessing.Queue(), multiprocessing.Queue()
      def serve():
          while True:
              question = questions.get()
              with counter.get_lock(): counter.value += 1
              answers.put(question * 2)
      server = multiprocessing.Process(target=serve, daemon=True)
      server.start()
      questions.put("a")
      assert answers.get(timeout=20) == "aa"
    `,
    check: `
      assert sorted(worker.pid for worker in pool._pool) == pids
      assert pool.map_async(pow, [], 1).get(20) == []
      assert pool.starmap_async(pow, [(2, 3), (3, 2)]).get(20) == [8, 9]
      before = counter.value
      questions.put("b")
      assert answers.get(timeout=20) == "bb" and counter.value == before + 1
    `,
  },
  'shared memory of several processes': {
    setUp: `
      import mmap, multiprocessing
      from multiprocessing import shared_memory
      named = shared_memory.SharedMemory(create=True, size=1 << 20)
      named.buf[:5] = b"named"
      anonymous = mmap.mmap(-1, 1 << 16)
      file = os.memfd_create("shared")
      os.truncate(file, 1 << 16)
      in_memory = mmap.mmap(file, 1 << 16)
      def count():
          other = shared_memory.SharedMemory(named.name)
          while True:
              for each in (other.buf, anonymous, in_memory): each[1000] = (each[1000] + 1) % 256
              time.sleep(0.01)
      child = multiprocessing.Process(target=count, daemon=True)
      child.start()
      anonymous[:9] = b"anonymous"
      in_memory[:6] = b"memory"
    `,
    check: `
      assert bytes(named.buf[:5]) == b"named" and anonymous[:9] == b"anonymous" and in_memory[:6] == b"memory"
      assert child.is_alive() and os.pread(file, 6, 0) == b"memory"
      before = [each[1000] for each in (named.buf, anonymous, in_memory)]
      until(lambda: all(each[1000] != was for each, was in zip((named.buf, anonymous, in_memory), before)))
      again = shared_memory.SharedMemory(named.name, track=False)
      again.buf[2000] = (again.buf[2000] + 1) % 256
      assert named.buf[2000] == again.buf[2000]
      again.close()
    `,
  },
  'a thread that waits for a child, and one that waits for a file lock': {
    setUp: `
      import fcntl, subprocess, threading
      child = subprocess.Popen(["cat"], stdin=-1)
      codes = []
      threading.Thread(target=lambda: codes.append(child.wait()), daemon=True).start()
      held, wanted = open("/tmp/locked", "w"), open("/tmp/locked", "w")
      fcntl.flock(held, fcntl.LOCK_EX)
      turns = 0
      def wait():
          global turns
          while True:
              fcntl.flock(wanted, fcntl.LOCK_EX)
              turns += 1
              fcntl.flock(wanted, fcntl.LOCK_UN)
              time.sleep(0.05)
      threading.Thread(target=wait, daemon=True).start()
      time.sleep(0.1)
    `,
    check: `
      assert child.poll() is None and codes == []
      before = turns
      time.sleep(0.2)
      assert turns == before
      fcntl.flock(held, fcntl.LOCK_UN)
      until(lambda: turns > before)
      fcntl.flock(held, fcntl.LOCK_EX)
      child.stdin.close()
      until(lambda: codes == [0])
      child = subprocess.Popen(["cat"], stdin=-1); codes.clear()
      threading.Thread(target=lambda: codes.append(child.wait()), daemon=True).start()
      time.sleep(0.05)
    `,
  },
})
