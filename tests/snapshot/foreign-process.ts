import type { Burrow, Engine } from '@dormouse/engine'

/** Counts in a file that it shares with the sandbox, as a child of PID 1. */
const ORPHAN = `#!/usr/bin/python3.real
import ctypes, mmap, os, sys, time
CLONE_PARENT, SIGCHLD, SYS_clone = 0x8000, 17, 56
if os.getpid() == 2 and ctypes.CDLL(None).syscall(SYS_clone, CLONE_PARENT | SIGCHLD, 0, 0, 0, 0) == 0:
    os.closerange(0, 64)
    file = os.open("/root/shared", os.O_RDWR | os.O_CREAT)
    os.truncate(file, 8)
    with mmap.mmap(file, 8) as shared:
        open("/root/orphan", "w").write(str(os.getpid()))
        while True: shared[:] = (int.from_bytes(shared, "little") + 1).to_bytes(8, "little")
os.execv("/usr/bin/python3.real", ["/usr/bin/python3.real", *sys.argv[1:]])
`

/**
 * Boots the sandbox again with a /usr/bin/python3 of its own, which is what the agent is started with. It makes a
 * process that is PID 1's child and not the agent's.
 */
export async function withOrphan(engine: Engine, burrow: Burrow): Promise<{ burrow: Burrow; pid: number }> {
  const replace = `
import os
real = os.path.realpath("/usr/bin/python3")
os.link(real, "/usr/bin/python3.real")
open("/usr/bin/fake", "w").write(${JSON.stringify(ORPHAN)})
os.chmod("/usr/bin/fake", 0o755)
os.rename("/usr/bin/fake", "/usr/bin/python3")`
  const { error } = await burrow.guest.runs.run({ code: replace })
  if (error !== undefined) throw new Error(error.traceback.join('\n'))
  const { snapshot } = await engine.snapshot(burrow, { kind: 'files', leave: 'gone' })
  const booted = await engine.restore(snapshot.id, { sandboxId: burrow.sandboxId })
  const code = `
import os, time
while not os.path.exists("/root/orphan") or not open("/root/orphan").read(): time.sleep(0.01)
print(open("/root/orphan").read(), open(f"/proc/{open('/root/orphan').read()}/stat").read().rsplit(")", 1)[1].split()[1])`
  const run = await booted.guest.runs.run({ code })
  const [pid, parent] = run.stdout.split(' ').map(Number)
  if (pid === undefined || parent !== 1) throw new Error(`no orphan: ${run.stdout} ${run.stderr}`)
  return { burrow: booted, pid }
}
