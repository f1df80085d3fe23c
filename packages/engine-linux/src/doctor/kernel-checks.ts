import { access, readFile } from 'node:fs/promises'
import { release } from 'node:os'
import { compareVersions } from '../criu/find-criu.ts'
import { runCommand } from '../host/run-command.ts'
import { type Check, fail, ok, warn } from './check.ts'

/** Has time namespaces with offsets, which CRIU uses, `clone3` and `close_range`. */
const KERNEL_MIN_VERSION = '5.10'
const PID_MAX_COMFORTABLE = 100_000
const INOTIFY_INSTANCES_COMFORTABLE = 512

export function checkKernel(): Promise<Check[]> {
  return Promise.all([
    checkVersion(),
    checkOverlay(),
    checkUserNamespaces(),
    checkTimeNamespaces(),
    checkSeccomp(),
    checkPidMax(),
    checkInotify(),
  ])
}

async function checkVersion(): Promise<Check> {
  const subject = { id: 'kernel', title: 'Linux kernel', meaning: 'namespaces, cgroups and CRIU build on it' }
  const version = /^\d+\.\d+/.exec(release())?.[0] ?? '0'
  return compareVersions(version, KERNEL_MIN_VERSION) >= 0
    ? ok(subject, release())
    : fail(subject, release(), `Boot a kernel of version ${KERNEL_MIN_VERSION} or newer.`)
}

async function checkOverlay(): Promise<Check> {
  const subject = {
    id: 'overlayfs',
    title: 'Overlay file system',
    meaning: 'sandboxes share the files of a template and keep only what they change',
  }
  const known = /\boverlay$/m.test(await readFile('/proc/filesystems', 'utf8'))
  // The list does not contain modules that are not loaded; the kernel loads this one at the first mount.
  const mounts = known || (await runCommand({ argv: ['modprobe', '--dry-run', 'overlay'] })).exitCode === 0
  return mounts
    ? ok(subject, known ? 'available' : 'available as a module')
    : fail(
        subject,
        'not available',
        'Use a kernel with CONFIG_OVERLAY_FS (every distribution kernel has it).',
      )
}

async function checkUserNamespaces(): Promise<Check> {
  const subject = {
    id: 'user-namespaces',
    title: 'User namespaces',
    meaning: 'root inside a sandbox has no privileges on the host',
  }
  const argv = [
    'unshare',
    '--user',
    '--map-root-user',
    '--mount',
    '--pid',
    '--net',
    '--ipc',
    '--uts',
    '--cgroup',
  ] as const
  const result = await runCommand({ argv: [...argv, '--fork', 'true'], timeoutMs: 10_000 })
  if (result.exitCode === 0) return ok(subject, 'can be created')
  // Some kernels do not have these files; the check then says what is missing.
  const limit = (await readFile('/proc/sys/user/max_user_namespaces', 'utf8').catch(() => 'unknown')).trim()
  return fail(
    subject,
    `refused: ${result.tail.at(-1) ?? result.ending} (user.max_user_namespaces is ${limit})`,
    'Set `sysctl user.max_user_namespaces=15000`. Inside a container, give it more privileges or use the host itself.',
  )
}

async function checkTimeNamespaces(): Promise<Check> {
  const subject = {
    id: 'time-namespaces',
    title: 'Time namespaces',
    meaning: 'after a sleep, clocks inside continue from where they stopped',
  }
  return (await exists('/proc/self/ns/time'))
    ? ok(subject, 'available')
    : fail(subject, 'not available', 'Use a kernel with CONFIG_TIME_NS (5.6 or newer).')
}

async function checkSeccomp(): Promise<Check> {
  const subject = {
    id: 'seccomp',
    title: 'seccomp filters',
    meaning: 'sandboxes cannot make dangerous system calls',
  }
  const actions = await readFile('/proc/sys/kernel/seccomp/actions_avail', 'utf8').catch(() => '')
  return actions.includes('errno')
    ? ok(subject, `actions: ${actions.trim()}`)
    : fail(subject, 'not available', 'Use a kernel with CONFIG_SECCOMP_FILTER.')
}

async function checkPidMax(): Promise<Check> {
  const subject = {
    id: 'pid-max',
    title: 'Process ids',
    meaning: 'how many processes all sandboxes can have at once',
  }
  const pidMax = Number(await readFile('/proc/sys/kernel/pid_max', 'utf8'))
  return pidMax >= PID_MAX_COMFORTABLE
    ? ok(subject, `kernel.pid_max is ${pidMax}`)
    : warn(
        subject,
        `kernel.pid_max is only ${pidMax}`,
        'For many sandboxes set `sysctl kernel.pid_max=4194304`.',
      )
}

async function checkInotify(): Promise<Check> {
  const subject = {
    id: 'inotify',
    title: 'inotify instances',
    meaning: 'how many file watchers a sandbox can have',
  }
  const limit = Number(await readFile('/proc/sys/fs/inotify/max_user_instances', 'utf8').catch(() => '0'))
  return limit >= INOTIFY_INSTANCES_COMFORTABLE
    ? ok(subject, `fs.inotify.max_user_instances is ${limit}`)
    : warn(
        subject,
        `fs.inotify.max_user_instances is only ${limit}`,
        'For sandboxes that watch files set `sysctl fs.inotify.max_user_instances=8192`.',
      )
}

function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  )
}
