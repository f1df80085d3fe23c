import { type ChildProcess, spawn } from 'node:child_process'
import { readdir, readFile, readlink } from 'node:fs/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { EVERYONE, useAttackers } from './attackers.ts'
import { layoutOfProcesses } from './isolated-factory.ts'

const attackers = await useAttackers()

describe('other people’s processes', () => {
  let onHost: ChildProcess
  beforeAll(() => {
    onHost = spawn('sleep', ['1000'], { stdio: 'ignore' })
  })
  afterAll(() => {
    onHost.kill('SIGKILL')
  })

  test.each(EVERYONE)('%s sees the processes of its own sandbox only', async (who) => {
    const neighbour = await attackers.create({ user: 'root' })
    await neighbour.guest.processes.start({ args: ['sleep', '4242'], user: who })
    const commands = (await attackers.attempt(
      who,
      '[reads(f"/proc/{p}/cmdline").replace(chr(0), " ") for p in os.listdir("/proc") if p.isdigit()]',
    )) as string[]
    expect(commands.length).toBeLessThan(12)
    expect(commands.join('\n')).toMatch(/dormouse_agent/)
    expect(commands.join('\n')).not.toMatch(/sleep|node|vitest/)
    await neighbour.destroy()
  })

  test.each(EVERYONE)('%s cannot signal a process of the host by its pid', async (who) => {
    const pid = onHost.pid ?? 0
    const kill = `[tries(lambda: os.kill(${pid}, s)) for s in (0, 9)]`
    expect(await attackers.attempt(who, kill)).toEqual(['ESRCH', 'ESRCH'])
    expect(onHost.exitCode).toBeNull()
    expect(onHost.signalCode).toBeNull()
  })

  test.each(EVERYONE)('%s cannot open a pidfd of a process of the host', async (who) => {
    expect(await attackers.attempt(who, `call("pidfd_open", ${onHost.pid}, 0)`)).toBe('ESRCH')
  })

  test.each(EVERYONE)('%s sees a parent of its first process nowhere', async (who) => {
    expect(await attackers.attempt(who, 'reads("/proc/1/status")')).toMatch(/^PPid:\t0$/m)
  })
})

/** The sandbox's first process is not one of the sandbox's own: it must be out of reach. */
describe.each(EVERYONE)('PID 1 is closed to %s', (who) => {
  test.each([
    ['attach', 'call("ptrace", 16, 1, 0, 0)', 'EPERM'],
    ['seize', 'call("ptrace", 0x4206, 1, 0, 0)', 'EPERM'],
    ['its memory', 'reads("/proc/1/mem")', 'EACCES'],
    ['its environment', 'reads("/proc/1/environ")', 'EACCES'],
    ['its memory map', 'reads("/proc/1/maps")', 'EACCES'],
    ['its auxiliary vector', 'reads("/proc/1/auxv")', 'EACCES'],
    ['its system call', 'reads("/proc/1/syscall")', 'EACCES'],
    ['its kernel stack', 'reads("/proc/1/stack")', 'EACCES'],
    ['its files', 'tries(lambda: os.listdir("/proc/1/fd"))', 'EACCES'],
    ['its root', 'tries(lambda: os.listdir("/proc/1/root/"))', 'EACCES'],
    ['its directory', 'tries(lambda: os.readlink("/proc/1/cwd"))', 'EACCES'],
    ['its program, to run or change', 'tries(lambda: os.open("/proc/1/exe", os.O_RDONLY))', 'EACCES'],
    ['the path of its program', 'tries(lambda: os.readlink("/proc/1/exe"))', 'EACCES'],
    ['its namespaces', 'tries(lambda: os.open("/proc/1/ns/mnt", os.O_RDONLY))', 'EACCES'],
    ['its out-of-memory score', 'writes("/proc/1/oom_score_adj", b"1000")', 'EACCES'],
    ['its memory by process_vm_readv', 'call("process_vm_readv", 1, IOV, 1, IOV, 1, 0)', 'EPERM'],
    ['its memory by process_vm_writev', 'call("process_vm_writev", 1, IOV, 1, IOV, 1, 0)', 'EPERM'],
    ['its files by pidfd', 'call("pidfd_getfd", call("pidfd_open", 1, 0), 0, 0)', 'EPERM'],
  ])('%s', async (_title, expression, answer) => {
    await attackers.python(
      who,
      'IOV = struct.pack("QQ", ctypes.addressof(ctypes.create_string_buffer(8)), 8)',
    )
    expect(await attackers.attempt(who, expression)).toBe(answer)
  })

  test('its command line does not say where it lies on the host', async () => {
    expect(await attackers.attempt(who, 'reads("/proc/1/cmdline").rstrip(chr(0))')).toBe('dormouse-init')
  })

  test('signals do nothing to it', async () => {
    const kill = '[tries(lambda: os.kill(1, s)) for s in (1, 2, 6, 9, 11, 15, 17, 19, 20)]'
    const answers = (await attackers.attempt(who, kill)) as unknown[]
    expect(new Set(answers)).toEqual(new Set([who === 'root' ? null : 'EPERM']))
    expect(await attackers.attempt(who, 'reads("/proc/1/status")')).toMatch(/^State:\t[RSD]/m)
  })
})

describe('the agent', () => {
  test.each(EVERYONE)('shields itself from everyday kills by %s', async (who) => {
    const kill = '[tries(lambda: os.kill(p, 9)) for p in (2, -2, -1)]'
    expect(await attackers.attempt(who, kill)).toEqual(['EPERM', 'EPERM', 'EPERM'])
  })

  test.each([
    ['attach', 'call("ptrace", 16, 2, 0, 0)', 'EPERM'],
    ['memory', 'reads("/proc/2/mem")', 'EACCES'],
    ['environment', 'reads("/proc/2/environ")', 'EACCES'],
    ['files', 'tries(lambda: os.listdir("/proc/2/fd"))', 'EACCES'],
    ['socket', 'tries(lambda: socket.socket(socket.AF_UNIX).connect("/.dormouse/run/agent.sock"))', 'EACCES'],
  ])('is closed to the ordinary user: %s', async (_title, expression, answer) => {
    expect(await attackers.attempt('user', expression)).toBe(answer)
  })

  test('holds no file, directory or program of the host', async () => {
    const agent = await agentOnHost()
    const open = await Promise.all((await readdir(`${agent}/fd`)).map((fd) => readlink(`${agent}/fd/${fd}`)))
    const known =
      /^(\/dev\/null|\/var\/log\/dormouse-agent\.log|anon_inode:\[?.*|(socket|pipe):\[\d+\]|\/\.dormouse\/.*)$/
    expect(open.filter((target) => !known.test(target))).toEqual([])
    expect(await readlink(`${agent}/exe`)).toMatch(/^\/usr\/bin\/python3/)
    expect(await readlink(`${agent}/cwd`)).toBe('/')
  })

  test('has nothing of the server’s environment', async () => {
    const environment = (await readFile(`${await agentOnHost()}/environ`, 'utf8')).split('\0').filter(Boolean)
    const names = environment.map((variable) => variable.split('=')[0] ?? '')
    expect(names.filter((name) => !/^(DORMOUSE_[A-Z_]+|HOME|LANG|PATH|LD_PRELOAD)$/.test(name))).toEqual([])
    expect(environment.join('\n')).not.toMatch(/\/work|\/var\/lib/)
  })

  test('stopped for good by root, it takes only its own sandbox along, which can still be destroyed', async () => {
    const victim = await attackers.create({ user: 'root' })
    const stop =
      'import os, signal; fd = os.open("/proc/2", os.O_RDONLY); signal.pidfd_send_signal(fd, signal.SIGSTOP)'
    await victim.guest.processes.start({ args: ['python3', '-c', stop], user: 'root' }).catch(() => {})
    await victim.destroy()
    expect((await attackers.factory.traces()).filter((trace) => trace.includes(victim.id))).toEqual([])
  })
})

test('on the host every process of a sandbox belongs to the shifted range', async () => {
  for (const directory of [await firstOnHost(), await agentOnHost()]) {
    const status = await readFile(`${directory}/status`, 'utf8')
    const ids = [...status.matchAll(/^[UG]id:\t(.*)$/gm)].flatMap((match) => (match[1] ?? '').split('\t'))
    expect(ids).toHaveLength(8)
    for (const id of ids) expect(Number(id)).toBeGreaterThanOrEqual(100_000)
  }
})

/** Directories in the host's /proc. */
async function firstOnHost(): Promise<string> {
  const { pidFile } = layoutOfProcesses(attackers.factory).burrow(attackers.burrow.id)
  return `/proc/${(await readFile(pidFile, 'utf8')).split(' ')[0]}`
}

async function agentOnHost(): Promise<string> {
  const first = await firstOnHost()
  const [agent] = (await readFile(`${first}/task/${first.slice(6)}/children`, 'utf8')).split(' ')
  return `/proc/${agent}`
}
