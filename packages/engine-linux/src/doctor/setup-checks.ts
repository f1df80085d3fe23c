import { access } from 'node:fs/promises'
import { join } from 'node:path'
import { CRIU_MIN_VERSION, compareVersions, findCriu } from '../criu/find-criu.ts'
import { nativeBuildDir } from '../native-programs.ts'
import { findGateAddon } from '../network/gate-addon.ts'
import { listTemplates } from '../template/template-store.ts'
import { type Check, fail, ok, warn } from './check.ts'

const NATIVE_PROGRAMS = ['dormouse-init', 'dormouse-shift']
const SET_UP = 'Run `./dormouse up`.'

export function checkSetup(dataDir: string): Promise<Check[]> {
  return Promise.all([checkCriu(dataDir), checkNativePrograms(), checkNetwork(), checkTemplates(dataDir)])
}

async function checkCriu(dataDir: string): Promise<Check> {
  const subject = { id: 'criu', title: 'CRIU', meaning: 'saves and restores the processes of a sandbox' }
  const criu = await findCriu(dataDir)
  if (criu === undefined) return fail(subject, 'not found', SET_UP)
  const found = `${criu.version} ${criu.root === '/' ? 'of the system' : 'brought by Dormouse'}, check: ${criu.check}`
  if (compareVersions(criu.version, CRIU_MIN_VERSION) < 0) {
    return fail(subject, found, `Version ${CRIU_MIN_VERSION} or newer is needed. ${SET_UP}`)
  }
  if (criu.check === 'ok') return ok(subject, found)
  return fail(
    subject,
    found,
    'Use a kernel with CONFIG_CHECKPOINT_RESTORE, and run as root outside of containers.',
  )
}

async function checkNativePrograms(): Promise<Check> {
  const subject = {
    id: 'native',
    title: 'Native programs',
    meaning: 'they make and enter the processes of sandboxes',
  }
  const there = await Promise.all(
    NATIVE_PROGRAMS.map((name) =>
      access(join(nativeBuildDir, name)).then(
        () => true,
        () => false,
      ),
    ),
  )
  const missing = NATIVE_PROGRAMS.filter((_, index) => there[index] !== true)
  return missing.length === 0
    ? ok(subject, NATIVE_PROGRAMS.join(', '))
    : fail(subject, `not built: ${missing.join(', ')}`, SET_UP)
}

async function checkNetwork(): Promise<Check> {
  const subject = { id: 'network', title: 'Network', meaning: 'sandboxes reach what their policy allows' }
  const found = await findGateAddon()
  if ('addon' in found) return ok(subject, 'gates can be opened')
  return warn(
    subject,
    found.missing,
    'Use Linux 5.9 or newer with CONFIG_BPF_SYSCALL and CONFIG_BPF_STREAM_PARSER as root, and run `./dormouse up`. Until then sandboxes have no network.',
  )
}

async function checkTemplates(dataDir: string): Promise<Check> {
  const subject = { id: 'templates', title: 'Templates', meaning: 'what new sandboxes start from' }
  try {
    const templates = await listTemplates(dataDir)
    const found = templates.map(
      ({ name, manifest }) => `${name} (${Math.round(manifest.sizeBytes / 1e6)} MB)`,
    )
    return found.length > 0 ? ok(subject, found.join(', ')) : fail(subject, 'none', SET_UP)
  } catch (error) {
    return fail(subject, (error as Error).message, SET_UP)
  }
}
