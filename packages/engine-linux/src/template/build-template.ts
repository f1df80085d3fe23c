import { createHash } from 'node:crypto'
import { chmod, mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { DormouseError, type Materials } from '@dormouse/contracts'
import { FileLock } from '../host/file-lock.ts'
import type { ReportProgress } from '../host/progress.ts'
import { makeWorkDirectory, publishDirectory, removeTree, switchCurrent } from '../host/publish-directory.ts'
import { inOwnNamespaces, runCommand, runCommandOrFail } from '../host/run-command.ts'
import { type BuildHooks, writeBuildHooks } from './build-hooks.ts'
import { BuildOutput } from './build-output.ts'
import { followBuild } from './build-progress.ts'
import type { TemplateDescription } from './description.ts'
import { type AptSettings, minValidSeconds, readAptSettings } from './host-apt.ts'
import { readNpmRegistries } from './host-npm.ts'
import { readPipIndexes } from './host-pip.ts'
import { encodeMaterials, materialsFile, parseMaterials } from './materials.ts'
import { shiftRoot, UID_BASE, UID_COUNT } from './shifted-root.ts'
import { templateSettings } from './template-settings.ts'
import {
  readTemplate,
  TEMPLATE_FORMAT_VERSION,
  type Template,
  type TemplateManifest,
  templateDirectory,
} from './template-store.ts'

/** Part of every template's hash. Raise it when the same description would give another result. */
const BUILDER_VERSION = 5
/** Packages that the agent, the kernel and the builder need in every template. */
const REQUIRED_PACKAGES = ['passwd', 'python3', 'python3-ipython']

export interface BuildTemplate {
  readonly description: TemplateDescription
  readonly dataDir: string
  readonly report?: ReportProgress
  readonly signal?: AbortSignal | undefined
}

/**
 * Builds the template, or finds an earlier build of the same description, and makes it current.
 * If it fails or is interrupted, the current template stays current.
 */
export async function buildTemplate(options: BuildTemplate): Promise<Template> {
  const { description, dataDir } = options
  const directory = templateDirectory(dataDir, description.name)
  await mkdir(directory, { recursive: true, mode: 0o711 })
  await using _lock = await lockBuild(directory, description.name)
  const final = join(directory, templateHash(description))
  if ((await readTemplate(final)) === undefined) await buildInto(final, directory, options)
  await switchCurrent(final)
  const template = await readTemplate(final)
  if (template === undefined)
    throw new DormouseError('internal', 'The template disappeared right after it was built.')
  return template
}

export function templateHash(description: TemplateDescription): string {
  const inputs = JSON.stringify([BUILDER_VERSION, UID_BASE, UID_COUNT, process.arch, description])
  return createHash('sha256').update(inputs).digest('hex').slice(0, 16)
}

async function lockBuild(directory: string, name: string): Promise<FileLock> {
  const lock = await FileLock.tryAcquire(join(directory, 'lock'))
  if (lock instanceof FileLock) return lock
  throw new DormouseError(
    'conflict',
    `Process ${lock.heldBy ?? '(unknown)'} is building template "${name}"`,
    {
      hint: 'Wait for that build to end.',
    },
  )
}

async function buildInto(final: string, directory: string, options: BuildTemplate): Promise<void> {
  const { description, report = () => {}, signal } = options
  const work = await makeWorkDirectory(directory)
  try {
    const result = join(work, 'result')
    const rootfs = join(result, 'rootfs')
    await mkdir(rootfs, { recursive: true, mode: 0o711 })
    await chmod(rootfs, 0o755)
    const materials = await makeRoot(work, rootfs, options)
    report({ percent: 90, doing: 'shifting owners' })
    await shiftRoot(rootfs, signal)
    report({ percent: 97, doing: 'writing to disk' })
    const manifest = describeBuild(description, await measureBytes(rootfs))
    await writeFile(join(result, 'template.json'), `${JSON.stringify(manifest, null, 2)}\n`)
    await writeFile(materialsFile(result), encodeMaterials(materials))
    signal?.throwIfAborted()
    await publishDirectory(result, final)
    report({ percent: 100, doing: 'done' })
  } finally {
    await removeTree(work)
  }
}

/** Installs all packages into an empty directory and runs the commands of the description. */
async function makeRoot(work: string, rootfs: string, options: BuildTemplate): Promise<Materials> {
  const { description, report = () => {}, signal } = options
  const settings = templateSettings({
    pip: await readPipIndexes(signal),
    npm: await readNpmRegistries(signal),
  })
  const { materials, ...hooks } = await writeBuildHooks(work, description, settings)
  const apt = await readAptSettings({ suite: description.suite, workDir: work, signal })
  const output = new BuildOutput()
  const follow = followBuild(report)
  const result = await runCommand({
    argv: inOwnNamespaces(['env', `TMPDIR=${work}`, ...mmdebstrapArgv({ description, hooks, rootfs, apt })]),
    onLine: (line) => {
      follow(line)
      output.add(line)
    },
    signal,
  })
  if (result.exitCode === 0) return parseMaterials(await readFile(materials, 'utf8'))
  throw new DormouseError(
    'setup_failed',
    `Building template "${description.name}" failed at: ${output.step} (mmdebstrap ${result.ending})`,
    {
      hint: 'Read the output above: a package, suite or command of the description failed, or the network did.',
      details: { output: output.lines.length > 0 ? output.lines : result.tail },
    },
  )
}

function mmdebstrapArgv(build: {
  description: TemplateDescription
  hooks: Omit<BuildHooks, 'materials'>
  rootfs: string
  apt: AptSettings
}): string[] {
  const { description, hooks, rootfs, apt } = build
  const packages = [...new Set([...REQUIRED_PACKAGES, ...description.packages])]
  return [
    'mmdebstrap',
    '--verbose',
    '--variant=apt',
    '--format=directory',
    // A burrow has its own /dev, and device nodes cannot be made in a user namespace anyway.
    '--skip=output/dev',
    ...apt.options.map((option) => `--aptopt=${option}`),
    // An attacker who controls the mirror or the network cannot serve packages older than this.
    '--aptopt=Acquire::Check-Valid-Until "true"',
    `--aptopt=Acquire::Min-ValidTime "${minValidSeconds(apt.options)}"`,
    '--aptopt=APT::Install-Recommends "false"',
    // A template is synced as a whole before it is published, and a sandbox at every snapshot.
    '--dpkgopt=force-unsafe-io',
    `--include=${packages.join(',')}`,
    `--setup-hook=${hooks.atStart}`,
    `--essential-hook=${hooks.afterBase}`,
    ...hooks.atEnd.map((hook) => `--customize-hook=${hook}`),
    description.suite,
    rootfs,
    ...apt.sources,
  ]
}

async function measureBytes(rootfs: string): Promise<number> {
  const { stdout } = await runCommandOrFail(
    { argv: ['du', '--summarize', '--block-size=1', '--', rootfs] },
    'measuring the template',
  )
  return Number.parseInt(stdout, 10)
}

function describeBuild(description: TemplateDescription, sizeBytes: number): TemplateManifest {
  return {
    formatVersion: TEMPLATE_FORMAT_VERSION,
    name: description.name,
    hash: templateHash(description),
    suite: description.suite,
    description,
    sizeBytes,
    createdAt: new Date().toISOString(),
    uidBase: UID_BASE,
    uidCount: UID_COUNT,
  }
}
