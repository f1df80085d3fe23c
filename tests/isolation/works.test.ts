import { describe, expect, test } from 'vitest'
import { EVERYONE, useAttackers } from './attackers.ts'

const sandbox = await useAttackers()

/**
 * chown, dac_override, fowner, fsetid, kill, setgid, setuid, setpcap, net_bind_service, sys_chroot, audit_write,
 * setfcap
 */
const ROOT_CAPABILITIES = '00000000a00405fb'
const NONE = '0000000000000000'

const status = async (path: string) => {
  const text = (await sandbox.attempt('root', `reads("${path}", 65536)`)) as string
  return Object.fromEntries(text.split('\n').map((line) => line.split(':\t') as [string, string]))
}

describe('privileges are exactly these', () => {
  test('root: the container-like set, and no way to more', async () => {
    expect(await status('/proc/self/status')).toMatchObject({
      CapInh: NONE,
      CapPrm: ROOT_CAPABILITIES,
      CapEff: ROOT_CAPABILITIES,
      CapBnd: ROOT_CAPABILITIES,
      CapAmb: NONE,
      NoNewPrivs: '1',
      Seccomp: '2',
      Seccomp_filters: '3',
    })
  })

  test('user: none', async () => {
    const text = (await sandbox.attempt('user', 'reads("/proc/self/status", 65536)')) as string
    expect(text).toMatch(/^CapPrm:\t0{16}$/m)
    expect(text).toMatch(/^CapEff:\t0{16}$/m)
    expect(text).toMatch(/^NoNewPrivs:\t1$/m)
    expect(text).toMatch(/^Seccomp:\t2$/m)
    expect(text).toMatch(/^Uid:\t1000\t1000\t1000\t1000$/m)
  })

  test.each(['uid_map', 'gid_map'])('%s: 65536 ids from 100000 on', async (name) => {
    const map = (await sandbox.attempt('user', `reads("/proc/self/${name}").split()`)) as string[]
    expect(map).toEqual(['0', '100000', '65536'])
  })
})

describe('no user becomes root by a program', () => {
  test('su asks the user for a password and does not get one', async () => {
    const { output, exitCode } = await sandbox.shell('user', 'su -c id root < /dev/null')
    expect(exitCode).not.toBe(0)
    expect(output).not.toContain('uid=0')
  })

  test('a setuid root shell runs as the user', async () => {
    await sandbox.shell('root', 'cp /bin/dash /opt/root-sh && chmod 6755 /opt/root-sh')
    const { output } = await sandbox.shell('user', '/opt/root-sh -p -c "id -u; cat /etc/shadow"')
    expect(output).toMatch(/^1000\n.*Permission denied/)
  })

  test('file capabilities give nothing', async () => {
    await sandbox.python(
      'root',
      'import shutil; shutil.copy("/bin/cat", "/opt/capable-cat"); os.chmod("/opt/capable-cat", 0o755); os.setxattr("/opt/capable-cat", "security.capability", struct.pack("<IIIII", 0x02000001, 2, 0, 0, 0))',
    )
    const { output } = await sandbox.shell('user', '/opt/capable-cat /etc/shadow')
    expect(output).toMatch(/Permission denied/)
  })
})

describe('what people need works', () => {
  test.each([
    ['apt-get', 'apt-get --version', /^apt \d/],
    ['dpkg', 'dpkg -l', /ii {2}python3/],
    ['chown', 'touch /tmp/f && chown user:user /tmp/f && stat -c %U:%G /tmp/f', /^user:user$/m],
    ['useradd and su', 'useradd -m dora && su dora -c "id -un; touch ~/mine"', /^dora$/m],
    ['chroot', 'chroot / id -u', /^0$/m],
    [
      'tar as root keeps owners',
      'cd /tmp && touch t && chown 7:8 t && tar cf t.tar t && rm t && tar xf t.tar && stat -c %u:%g t',
      /^7:8$/m,
    ],
    ['port 80', 'python3 -c "import socket; socket.create_server((\'\', 80)); print(80)"', /^80$/m],
  ])('for root: %s', async (_title, line, answer) => {
    const { output, exitCode } = await sandbox.shell('root', line)
    expect(output).toMatch(answer)
    expect(exitCode).toBe(0)
  })

  const workDir = 'cd "$(mktemp -d)"'
  test.each([
    ['pip', 'pip --version', /^pip \d/],
    [
      'git',
      `${workDir} && git init -q . && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x && git log --oneline`,
      / x$/m,
    ],
    ['ping', 'if command -v ping; then ping -c 1 127.0.0.1; else echo no ping; fi', /no ping|1 received/],
    ['a low port', 'python3 -c "import socket; socket.create_server((\'\', 81)); print(81)"', /^81$/m],
    [
      'processes of Python',
      'python3 -c "import multiprocessing as m; print(sum(m.Pool(3).map(abs, range(9))))"',
      /^36$/m,
    ],
    [
      'semaphores and shared memory',
      'python3 -c "from multiprocessing import shared_memory as s, Semaphore; Semaphore(); m = s.SharedMemory(create=True, size=9); m.close(); m.unlink(); print(1)"',
      /^1$/m,
    ],
    [
      'message queues',
      `python3 -c "import ctypes; l = ctypes.CDLL(None); n = b'/q-%d' % l.getpid(); print(l.mq_open(n, 0o102, 0o600, None) > 0, l.mq_unlink(n))"`,
      /^True 0$/m,
    ],
    [
      'a terminal',
      'script -qec "tty" /dev/null || python3 -c "import pty; pty.spawn([\'tty\'])"',
      /\/dev\/pts\/\d/,
    ],
  ])(
    'for everyone: %s',
    async (_title, line, answer) => {
      for (const who of EVERYONE) {
        const { output, exitCode } = await sandbox.shell(who, line)
        expect(output).toMatch(answer)
        expect(exitCode).toBe(0)
      }
    },
    60_000,
  )

  test.each([
    ['user', 'in a virtual environment', 'python3 -m venv env', 'env/bin/python'],
    ['root', 'for the whole system', 'export PIP_BREAK_SYSTEM_PACKAGES=1', 'python3'],
  ] as const)('%s installs a package of its own %s', async (who, _where, prepare, python) => {
    const line = `cd "$(mktemp -d)" && ${prepare} && ${MAKE_WHEEL}\n${python} -m pip install -q --no-index ./made*.whl && ${python} -c 'import made'`
    expect(await sandbox.shell(who, line)).toMatchObject({
      output: expect.stringContaining('made here'),
      exitCode: 0,
    })
  })

  test.each(EVERYONE)('%s traces children of its own', async (who) => {
    const trace = `in_child(lambda: call("ptrace", 0, 0, 0, 0))`
    expect(await sandbox.attempt(who, trace)).toBe('0')
    const attach = `[call("ptrace", 0x4206, CHILD, 0, 0), os.kill(CHILD, 9), os.waitpid(CHILD, 0)[1]]`
    await sandbox.python(
      who,
      'import time\nCHILD = os.fork()\nif CHILD == 0:\n  time.sleep(1000); os._exit(0)',
    )
    expect(await sandbox.attempt(who, attach)).toEqual([0, null, 9])
  })
})

/** Without the network: a wheel written by hand. */
const MAKE_WHEEL = `python3 - <<'END'
import zipfile
about = 'made-1.dist-info'
with zipfile.ZipFile('made-1-py3-none-any.whl', 'w') as wheel:
    wheel.writestr('made.py', 'print("made here")')
    wheel.writestr(f'{about}/METADATA', 'Metadata-Version: 2.1\\nName: made\\nVersion: 1\\n')
    wheel.writestr(f'{about}/WHEEL', 'Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')
    wheel.writestr(f'{about}/RECORD', f'made.py,,\\n{about}/METADATA,,\\n{about}/WHEEL,,\\n{about}/RECORD,,\\n')
END`
