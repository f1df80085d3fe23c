import { newSandboxId } from '@dormouse/contracts'
import { describe, expect, test } from 'vitest'
import type { Burrow } from '../engine.ts'
import type { EngineFactory } from './engine-factory.ts'
import { forkBurrow } from './fork-burrow.ts'
import { useSharedBurrow } from './shared-burrow.ts'

const print = async (burrow: Burrow, code: string) => (await burrow.guest.runs.run({ code })).stdout.trim()

export function describeFork(factory: EngineFactory): void {
  describe('fork and rollback', () => {
    const shared = useSharedBurrow(factory)
    const fork = async (burrow: Burrow, count: number, reseed?: boolean) => {
      const sandboxIds = Array.from({ length: count }, newSandboxId)
      const result = await forkBurrow(shared.engine, burrow, {
        sandboxIds,
        ...(reseed !== undefined && { reseed }),
      })
      for (const each of [result.parent, ...result.children]) shared.hold(each)
      return result
    }

    test('children and parent have the same objects and change them separately', async () => {
      const burrow = await shared.create()
      await burrow.guest.runs.run({
        code: 'import numpy as np; a = np.arange(5_000_000); address = id(a); who = "parent"',
      })
      const { parent, children } = await fork(burrow, 3)
      expect(children).toHaveLength(3)
      expect(parent.sandboxId).toBe(burrow.sandboxId)
      const all = [parent, ...children]
      for (const each of all)
        expect(await print(each, 'print(id(a) == address, a.sum(), who)')).toBe('True 12499997500000 parent')
      await Promise.all(
        children.map((child, i) =>
          child.guest.runs.run({ code: `a[0] = ${i + 1}; open("/root/mine", "w").write("${i}")` }),
        ),
      )
      expect(await Promise.all(all.map((each) => print(each, 'print(a[0])')))).toEqual(['0', '1', '2', '3'])
      await expect(parent.guest.files.stat('/root/mine')).rejects.toMatchObject({ code: 'not_found' })
    })

    test('the parent and each child run as soon as they are restored, while a sibling waits for its turn', async () => {
      const burrow = await shared.create()
      await burrow.guest.runs.run({ code: 'x = 7' })
      const sandboxIds = [newSandboxId(), newSandboxId(), newSandboxId()]
      const gate = new Gate()
      const running = new Arrivals(3)
      const forking = shared.engine.fork(burrow, {
        sandboxIds,
        limitRestore: async (id, restore) => {
          if (id === sandboxIds[1]) await gate.opened
          return restore()
        },
        onParent: (parent) => running.add(shared.hold(parent.burrow)),
        onChild: (child) => running.add(shared.hold(child)),
      })
      const [parent, ...children] = await running.all
      expect(parent!.sandboxId).toBe(burrow.sandboxId)
      expect(children.map(({ sandboxId }) => sandboxId).sort()).toEqual([sandboxIds[0], sandboxIds[2]].sort())
      for (const each of [parent!, ...children]) expect(await print(each, 'x += 1; print(x)')).toBe('8')
      gate.open()
      const forked = await forking
      expect(forked.children.map(({ sandboxId }) => sandboxId)).toEqual(sandboxIds)
      expect(await print(forked.children[1]!, 'print(x)')).toBe('7')
    })

    test('a child that cannot be restored leaves none, also none that has run code; the parent continues', async () => {
      const burrow = await shared.create()
      await burrow.guest.runs.run({ code: 'x = 7' })
      const sandboxIds = [newSandboxId(), newSandboxId(), newSandboxId()]
      const gate = new Gate()
      const running = new Arrivals(2)
      const refusal = new Error('no room')
      const forking = shared.engine.fork(burrow, {
        sandboxIds,
        limitRestore: async (id, restore) => {
          if (id === burrow.sandboxId || id === sandboxIds[0]) return restore()
          await gate.opened
          if (id === sandboxIds[1]) throw refusal
          return restore()
        },
        onParent: (parent) => running.add(shared.hold(parent.burrow)),
        onChild: (child) => running.add(shared.hold(child)),
      })
      const [parent, child] = await running.all
      expect(await print(child!, 'x += 1; print(x)')).toBe('8')
      gate.open()
      await expect(forking).rejects.toBe(refusal)
      expect(await child!.ended).toEqual({ reason: 'destroyed' })
      expect(await print(parent!, 'print(x)')).toBe('7')
    })

    test('hostname and sandbox id inside are those of the child', async () => {
      const { parent, children } = await fork(await shared.create(), 1)
      for (const each of [parent, children[0]!]) {
        const code = 'import socket, os; print(socket.gethostname(), os.environ["DORMOUSE_SANDBOX_ID"])'
        expect(await print(each, code)).toBe(`${each.sandboxId} ${each.sandboxId}`)
      }
    })

    test('random numbers differ between siblings, unless reseeding is off', async () => {
      const burrow = await shared.create()
      await burrow.guest.runs.run({ code: 'import random, numpy as np; random.seed(1); np.random.seed(1)' })
      const code = 'print(random.random(), np.random.rand())'
      const first = await fork(burrow, 2)
      const different = await Promise.all([first.parent, ...first.children].map((each) => print(each, code)))
      expect(new Set(different).size).toBe(3)

      await first.parent.guest.runs.run({ code: 'random.seed(1); np.random.seed(1)' })
      const second = await fork(first.parent, 2, false)
      const kept = await Promise.all([second.parent, ...second.children].map((each) => print(each, code)))
      expect(new Set(kept).size).toBe(1)
    })

    test('on_resume functions run after a wake, on_fork functions after a fork', async () => {
      const burrow = await shared.create()
      const code =
        'import dormouse\nlog = []\n@dormouse.on_resume\ndef r(): log.append("resume")\n@dormouse.on_fork\ndef f(): log.append("fork")'
      await burrow.guest.runs.run({ code })
      const { snapshot } = await shared.engine.snapshot(burrow, { leave: 'gone' })
      const woken = shared.hold(await shared.engine.restore(snapshot.id, { sandboxId: burrow.sandboxId }))
      expect(await print(woken, 'print(log)')).toBe("['resume']")
      const { children } = await fork(woken, 1)
      expect(await print(children[0]!, 'print(log)')).toBe("['resume', 'fork']")
    })

    test('files: layers of several forks, with deletions, renamed directories, links and sparse files', async () => {
      const burrow = await shared.create()
      const first = `mkdir -p /root/d/sub && echo one > /root/d/sub/f && ln /root/d/sub/f /root/hard && ln -s d/sub/f /root/soft
        truncate -s 1G /root/sparse && printf end >> /root/sparse && setfattr -n user.k -v v /root/d/sub/f 2>/dev/null; mkfifo /root/pipe; rm /etc/issue; chmod 4750 /root/hard`
      expect(await burrow.guest.runs.run({ code: first, language: 'bash' })).toMatchObject({ stderr: '' })
      const one = await fork(burrow, 1)
      const second =
        "set -e; mv /root/d /root/e; rm /root/soft; echo two >> /root/e/sub/f; mkdir /root/d; python3 -c \"import os; os.rename('/usr/share/doc', '/usr/share/doc2')\""
      expect(await one.children[0]!.guest.runs.run({ code: second, language: 'bash' })).toMatchObject({
        exitCode: 0,
        stderr: '',
      })
      const two = await fork(one.children[0]!, 1)
      const look =
        'cat /root/e/sub/f; ls /root | tr "\\n" " "; ls /root/d | wc -l; stat -c "%a %h %s" /root/hard; stat -c %s /root/sparse; test -p /root/pipe && echo fifo; test ! -e /etc/issue && echo whiteout; test -d /usr/share/doc2 && test ! -e /usr/share/doc && echo renamed'
      const seen = (await two.children[0]!.guest.runs.run({ code: look, language: 'bash' })).stdout
      expect(seen).toContain('one\ntwo\n')
      expect(seen).toContain('d e hard pipe sparse 0\n')
      expect(seen).toContain('4750')
      expect(seen).toContain('1073741827\nfifo\nwhiteout\nrenamed\n')
      expect(
        (
          await one.parent.guest.runs.run({
            code: 'cat /root/d/sub/f; readlink /root/soft',
            language: 'bash',
          })
        ).stdout,
      ).toBe('one\nd/sub/f\n')
    })

    test('rollback restores an older state in place', async () => {
      const burrow = await shared.create()
      await burrow.guest.runs.run({ code: 'x = "before"; open("/root/f", "w").write("before")' })
      const { snapshot, burrow: next } = await shared.engine.snapshot(burrow, { leave: 'running' })
      await next!.guest.runs.run({ code: 'x = "after"; open("/root/f", "w").write("after")' })
      const back = shared.hold(await shared.engine.rollback(next!, snapshot.id))
      expect(back.sandboxId).toBe(burrow.sandboxId)
      expect(await print(back, 'print(x, open("/root/f").read())')).toBe('before before')
      expect(await next!.ended).toEqual({ reason: 'destroyed' })
    })
  })
}

/** Something waits here until the test opens it. */
class Gate {
  open = () => {}
  readonly opened = new Promise<void>((resolve) => {
    this.open = resolve
  })
}

/** Resolves with the first burrows, in the order in which they came. */
class Arrivals {
  readonly all: Promise<readonly Burrow[]>
  readonly add: (burrow: Burrow) => void

  constructor(count: number) {
    const burrows: Burrow[] = []
    let resolve: (all: readonly Burrow[]) => void
    this.all = new Promise((arrived) => {
      resolve = arrived
    })
    this.add = (burrow) => {
      burrows.push(burrow)
      if (burrows.length === count) resolve([...burrows])
    }
  }
}
