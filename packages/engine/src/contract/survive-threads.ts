import { inContext } from './survive-item.ts'

export const threadsThatSurvive = inContext('threads', {
  'objects with the same id(), references and cycles': {
    setUp: `
      import weakref
      class Node: pass
      node = Node()
      node.itself = node
      objects = [object(), [1, 2], {"k": (1, 2)}, "text" * 100, b"bytes" * 1000, 10 ** 40, node, lambda: 7]
      ids = [id(each) for each in objects]
      weak = weakref.ref(node)
    `,
    check: `
      assert [id(each) for each in objects] == ids
      assert objects[1:6] == [[1, 2], {"k": (1, 2)}, "text" * 100, b"bytes" * 1000, 10 ** 40]
      assert weak() is node is node.itself and objects[7]() == 7
    `,
  },
  'numpy arrays and pandas frames at the same address': {
    setUp: `
      import numpy as np, pandas as pd
      array = np.arange(1_000_000)
      view = array[10:20]
      frame = pd.DataFrame({"a": array, "b": np.sqrt(array)})
      addresses = [array.ctypes.data, view.ctypes.data, id(frame), frame["b"].to_numpy().ctypes.data]
      total = frame["b"].sum()
    `,
    check: `
      assert [array.ctypes.data, view.ctypes.data, id(frame), frame["b"].to_numpy().ctypes.data] == addresses
      assert array.sum() == 499999500000 and frame["b"].sum() == total
      array[10] += 1
      assert view[0] == array[10]
      array[10] -= 1
    `,
  },
  'a thread that runs': {
    setUp: `
      import threading
      count = 0
      def work():
          global count
          while True:
              for _ in range(20_000): count += 1
              time.sleep(0.005)
      thread = threading.Thread(target=work, daemon=True)
      thread.start()
      names = (thread.ident, thread.native_id)
    `,
    check: `
      assert thread.is_alive() and (thread.ident, thread.native_id) == names
      assert str(thread.native_id) in os.listdir("/proc/self/task")
      before = count
      assert before > 0
      until(lambda: count > before + 40_000)
    `,
  },
  'a thread that sleeps for the remaining time': {
    setUp: `
      import threading
      naps, late = [], 0
      def nap():
          while True:
              begin = time.monotonic()
              time.sleep(3)
              naps.append(time.monotonic() - begin)
      # How late a busy machine wakes a thread: the naps are too short to measure anything else.
      def doze():
          global late
          while True:
              begin = time.monotonic()
              time.sleep(0.05)
              late = max(late, time.monotonic() - begin - 0.05)
      for each in (nap, doze): threading.Thread(target=each, daemon=True).start()
    `,
    check: `
      n = len(naps)
      until(lambda: len(naps) > n)
      # One that started from the beginning after it was saved would take nearly twice as long.
      assert all(3 <= each < 4.5 + late for each in naps), (naps, late)
    `,
  },
  'threads that wait on a lock, a queue, a condition, an event and a barrier': {
    setUp: `
      import queue, threading
      lock = threading.Lock(); lock.acquire()
      condition = threading.Condition(); ready = False
      event = threading.Event()
      barrier = threading.Barrier(2)
      asked, answered = queue.Queue(), queue.Queue()
      passed = dict.fromkeys(["lock", "condition", "event", "barrier"], 0)
      def wait_lock():
          while True:
              lock.acquire(); passed["lock"] += 1
      def wait_queue():
          while True: answered.put(asked.get() * 2)
      def wait_condition():
          global ready
          while True:
              with condition:
                  condition.wait_for(lambda: ready)
                  ready = False
                  passed["condition"] += 1
      def wait_event():
          while True:
              event.wait(); event.clear(); passed["event"] += 1
      def wait_barrier():
          while True:
              barrier.wait(); passed["barrier"] += 1
      for each in (wait_lock, wait_queue, wait_condition, wait_event, wait_barrier):
          threading.Thread(target=each, daemon=True).start()
      until(lambda: barrier.n_waiting == 1)
      time.sleep(0.1)
    `,
    check: `
      before = dict(passed)
      time.sleep(0.1)
      assert passed == before and answered.empty() and barrier.n_waiting == 1
      lock.release()
      asked.put(21)
      assert answered.get(timeout=20) == 42
      with condition:
          ready = True
          condition.notify_all()
      event.set()
      barrier.wait(20)
      until(lambda: all(passed[each] == before[each] + 1 for each in passed))
      until(lambda: barrier.n_waiting == 1)
    `,
  },
  'an asyncio loop with timers, tasks and a subprocess': {
    setUp: `
      import asyncio, threading
      loop = asyncio.new_event_loop()
      threading.Thread(target=loop.run_forever, daemon=True).start()
      ticks, fired, busy = 0, [], 0
      async def tick():
          global ticks, busy
          while True:
              begin = loop.time()
              await asyncio.sleep(0.05)
              ticks += 1
              # How late a busy machine runs a task.
              busy = max(busy, loop.time() - begin - 0.05)
      def arm():
          due = loop.time() + 2
          loop.call_at(due, lambda: fired.append(loop.time() - due))
      async def begin():
          global bell, child, task
          bell = asyncio.Event()
          task = asyncio.create_task(tick())
          child = await asyncio.create_subprocess_exec("cat", stdin=-1, stdout=-1)
          arm()
      asyncio.run_coroutine_threadsafe(begin(), loop).result(20)
      async def ring():
          waiter = asyncio.create_task(bell.wait())
          await asyncio.sleep(0)
          bell.set()
          assert await asyncio.wait_for(waiter, 20)
          bell.clear()
          child.stdin.write(b"through\\n")
          assert await asyncio.wait_for(child.stdout.readline(), 20) == b"through\\n"
      armed = 1
    `,
    check: `
      before = ticks
      until(lambda: ticks > before + 2)
      until(lambda: len(fired) == armed)
      assert all(0 <= late < 1.5 + busy for late in fired), (fired, busy)
      asyncio.run_coroutine_threadsafe(ring(), loop).result(20)
      assert child.returncode is None and not task.done()
      loop.call_soon_threadsafe(arm); armed += 1
      time.sleep(0.05)
    `,
  },
})
