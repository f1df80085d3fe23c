import { inContext } from './survive-item.ts'

export const descriptorsThatSurvive = inContext('descriptors', {
  'epoll with what it watches': {
    setUp: `
      import select
      reader, writer = os.pipe()
      poll = select.epoll()
      poll.register(reader, select.EPOLLIN)
      edge = select.epoll(); edge.register(reader, select.EPOLLIN | select.EPOLLET)
      nested = select.epoll(); nested.register(poll.fileno(), select.EPOLLIN)
    `,
    check: `
      assert poll.poll(0) == []
      os.write(writer, b"x")
      assert poll.poll(20) == [(reader, select.EPOLLIN)] and nested.poll(20) == [(poll.fileno(), select.EPOLLIN)]
      assert edge.poll(20) == [(reader, select.EPOLLIN)] and edge.poll(0) == []
      assert os.read(reader, 10) == b"x"
    `,
  },
  'eventfd with its counter': {
    setUp: `
      event = os.eventfd(3)
      full = os.eventfd(0xffff_fffe, os.EFD_NONBLOCK)
    `,
    check: `
      assert os.eventfd_read(event) == 3 and os.eventfd_read(full) == 0xffff_fffe
      os.eventfd_write(event, 3); os.eventfd_write(full, 0xffff_fffe)
    `,
  },
  'timerfd that expires when it is due': {
    setUp: `
      begin = time.monotonic()
      once = os.timerfd_create(time.CLOCK_MONOTONIC); os.timerfd_settime(once, initial=2)
      absolute = os.timerfd_create(time.CLOCK_MONOTONIC)
      os.timerfd_settime(absolute, flags=os.TFD_TIMER_ABSTIME, initial=begin + 2.5)
      often = os.timerfd_create(time.CLOCK_MONOTONIC); os.timerfd_settime(often, initial=0.1, interval=0.1)
    `,
    check: `
      assert int.from_bytes(os.read(once, 8), sys.byteorder) == 1
      assert time.monotonic() - begin >= 2
      assert int.from_bytes(os.read(absolute, 8), sys.byteorder) == 1
      assert time.monotonic() - begin >= 2.5
      os.read(often, 8)
      assert int.from_bytes(os.read(often, 8), sys.byteorder) >= 1
      begin = time.monotonic(); os.timerfd_settime(once, initial=2)
      os.timerfd_settime(absolute, flags=os.TFD_TIMER_ABSTIME, initial=begin + 2.5)
    `,
  },
  'signalfd, blocked and pending signals': {
    setUp: `
      import ctypes, signal
      libc = ctypes.CDLL(None, use_errno=True)
      mask = (ctypes.c_uint64 * 16)(); mask[0] = 1 << (signal.SIGUSR2 - 1) | 1 << (signal.SIGRTMIN + 3 - 1)
      # signalfd shows what is pending for the thread that reads, so the signals are blocked in all of them.
      signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2, signal.SIGRTMIN + 3})
      fd = libc.signalfd(-1, ctypes.byref(mask), 0o4000)
      assert fd >= 0
      os.kill(os.getpid(), signal.SIGUSR2)
      signal.pthread_kill(__import__("threading").get_ident(), signal.SIGRTMIN + 3)
    `,
    check: `
      assert signal.pthread_sigmask(signal.SIG_BLOCK, []) >= {signal.SIGUSR2, signal.SIGRTMIN + 3}
      assert signal.sigpending() == {signal.SIGUSR2, signal.SIGRTMIN + 3}, signal.sigpending()
      got = {int.from_bytes(os.read(fd, 128)[:4], sys.byteorder) for _ in range(2)}
      assert got == {signal.SIGUSR2, signal.SIGRTMIN + 3} and signal.sigpending() == set()
      os.kill(os.getpid(), signal.SIGUSR2)
      signal.pthread_kill(__import__("threading").get_ident(), signal.SIGRTMIN + 3)
    `,
  },
  'inotify with its watches': {
    setUp: `
      import ctypes, struct
      libc = ctypes.CDLL(None, use_errno=True)
      os.makedirs("/root/watched"); open("/root/watched-file", "w").close()
      fd = libc.inotify_init1(0o4000)
      IN_CREATE, IN_MODIFY = 0x100, 0x2
      watches = [libc.inotify_add_watch(fd, b"/root/watched", IN_CREATE), libc.inotify_add_watch(fd, b"/root/watched-file", IN_MODIFY)]
      assert fd >= 0 and min(watches) >= 0, ctypes.get_errno()
      def read():
          data, events = os.read(fd, 4096), []
          while data:
              wd, mask, _, size = struct.unpack_from("iIII", data)
              events.append((wd, mask, data[16:16 + size].rstrip(b"\\0"))); data = data[16 + size:]
          return events
      n = 0
    `,
    check: `
      n += 1
      open(f"/root/watched/{n}", "w").close()
      with open("/root/watched-file", "a") as file: file.write("x")
      until(lambda: True)
      assert read() == [(watches[0], IN_CREATE, str(n).encode()), (watches[1], IN_MODIFY, b"")]
    `,
  },
  'pidfd of a child': {
    setUp: `
      import select, signal, subprocess
      child = subprocess.Popen(["sleep", "1000"])
      fd = os.pidfd_open(child.pid)
    `,
    check: `
      assert select.select([fd], [], [], 0) == ([], [], []) and child.poll() is None
      signal.pidfd_send_signal(fd, signal.SIGTERM)
      assert select.select([fd], [], [], 20)[0] == [fd] and child.wait() == -signal.SIGTERM
      os.close(fd)
      child = subprocess.Popen(["sleep", "1000"])
      fd = os.pidfd_open(child.pid)
    `,
  },
  'a terminal made inside, with a program on it': {
    setUp: `
      import pty, termios, fcntl, struct
      pid, terminal = pty.fork()
      if pid == 0:
          os.execvp("python3", ["python3", "-uc", "import os\\nwhile True: print('got', input(), os.get_terminal_size().columns)"])
      fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 97, 0, 0))
      attributes = termios.tcgetattr(terminal)
      attributes[3] &= ~termios.ECHO
      termios.tcsetattr(terminal, termios.TCSANOW, attributes)
      def ask(text):
          os.write(terminal, text + b"\\n")
          seen = b""
          while not seen.endswith(b"\\r\\n"): seen += os.read(terminal, 1000)
          return seen
      assert ask(b"first") == b"got first 97\\r\\n"
    `,
    check: `
      assert termios.tcgetattr(terminal) == attributes
      assert ask(b"again") == b"got again 97\\r\\n"
      assert os.tcgetpgrp(terminal) == pid
    `,
  },
})
