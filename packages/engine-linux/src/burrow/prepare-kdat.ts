import { chmod, chown, copyFile, mkdir, rename, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { burrowLimitsSchema, DormouseError, newSandboxId } from '@dormouse/contracts'
import type { Criu } from '../criu/find-criu.ts'
import { kdatDirectory } from '../criu/kdat.ts'
import { runCriu } from '../criu/run-criu.ts'
import { makeOwnedDirectory, removeAbandoned } from '../host/work-directory.ts'
import type { FirstProcess } from '../process/first-process.ts'
import { listTemplates } from '../template/template-store.ts'
import type { BurrowHost } from './burrow-host.ts'
import { launchBurrow } from './launch-burrow.ts'
import { discardSpare } from './spare.ts'

/** CRIU keeps its cache on a tmpfs only, and /run need not be one. */
const SCRATCH = { parent: '/dev/shm', prefix: 'dormouse-' }

/**
 * Lets CRIU examine the kernel once, in an empty burrow that no sandbox has touched, and keeps the result. That saves
 * every later call tens of milliseconds. CRIU only ever reads the copy, which sandboxes cannot write.
 *
 * Does nothing when the result exists, or when there is no template to make a burrow from.
 */
export async function prepareKdat(
  host: BurrowHost,
  { criu, dataDir, toolsDir }: { criu: Criu; dataDir: string; toolsDir: string },
): Promise<void> {
  const directory = kdatDirectory(criu)
  await removeAbandoned(SCRATCH)
  await mkdir(directory, { recursive: true, mode: 0o755 })
  // Missing: CRIU has not examined this kernel yet.
  if (await stat(join(directory, 'burrow', 'criu.kdat')).catch(() => undefined)) return
  const [template] = await listTemplates(dataDir)
  if (template === undefined) return
  const scratch = await makeOwnedDirectory(SCRATCH)
  const runDir = join(scratch, 'link')
  const spare = await host.spares.take()
  try {
    await mkdir(runDir, { mode: 0o755 })
    // CRIU also writes there as root of the burrow.
    await chown(runDir, template.manifest.uidBase, template.manifest.uidBase)
    spare.restorer?.cancel()
    const limits = burrowLimitsSchema.parse({})
    const launch = { sandboxId: newSandboxId(), template, toolsDir, limits, runDir }
    const { first } = await launchBurrow(host, spare, launch)
    await examineKernel({ criu, first, runDir })
  } finally {
    await discardSpare(spare, host.hierarchies)
    await rm(scratch, { recursive: true, force: true })
  }
}

async function examineKernel({
  criu,
  first,
  runDir,
}: {
  criu: Criu
  first: FirstProcess
  runDir: string
}): Promise<void> {
  for (const as of ['host', 'burrow'] as const) {
    // Neither action can succeed; both examine the kernel first.
    const { output } = await runCriu({
      criu,
      firstPid: first.pid,
      as,
      isExamining: true,
      imagesDir: runDir,
      kdatDir: '/.dormouse/run',
      action: as === 'host' ? ['dump', '--tree', '1000000'] : ['restore'],
    })
    const directory = join(kdatDirectory(criu), as)
    await mkdir(directory, { recursive: true, mode: 0o755 })
    const final = join(directory, 'criu.kdat')
    await copyFile(join(runDir, 'criu.kdat'), `${final}.new`).catch((cause: unknown) => {
      const reason = output.trim().slice(-300)
      throw new DormouseError('host_unsupported', `CRIU could not examine this kernel: ${reason}`, { cause })
    })
    await chmod(`${final}.new`, 0o644)
    await rename(`${final}.new`, final)
    await rm(join(runDir, 'criu.kdat'))
  }
}
