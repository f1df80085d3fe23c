import { chmod, chown, copyFile, mkdir, rename, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { burrowLimitsSchema, DormouseError, newSandboxId } from '@dormouse/contracts'
import type { FirstProcess } from '../burrow/first-process.ts'
import { type BurrowHost, withEmptyBurrow } from '../burrow/start-burrow.ts'
import { makeOwnedDirectory, removeAbandoned } from '../host/work-directory.ts'
import { listTemplates } from '../template/template-store.ts'
import type { Criu } from './find-criu.ts'
import { runCriu } from './run-criu.ts'

/** Where CRIU finds its knowledge of this kernel inside a burrow, by the privileges it runs with. */
export const KDAT_HOST = '/.dormouse/kdat/host'
export const KDAT_BURROW = '/.dormouse/kdat/burrow'

/** CRIU keeps its cache on a tmpfs only, and /run need not be one. */
const SCRATCH = { parent: '/dev/shm', prefix: 'dormouse-' }

/** Below /run: the kernel is the same until the next boot. One directory per CRIU, since the format is its own. */
export function kdatDirectory(criu: Criu): string {
  return join('/run/dormouse', `kdat-${criu.version}`)
}

/** Makes it unless it is there. Without a template there is nothing to make a burrow from, and no burrow to need it. */
export async function prepareKdat(
  host: BurrowHost,
  { criu, dataDir, toolsDir }: { criu: Criu; dataDir: string; toolsDir: string },
): Promise<void> {
  const directory = kdatDirectory(criu)
  await removeAbandoned(SCRATCH)
  await mkdir(directory, { recursive: true, mode: 0o755 })
  if (await stat(join(directory, 'burrow', 'criu.kdat')).catch(() => undefined)) return
  const [template] = await listTemplates(dataDir)
  if (template === undefined) return
  const limits = burrowLimitsSchema.parse({})
  const scratch = await makeOwnedDirectory(SCRATCH)
  const link = join(scratch, 'link')
  try {
    await mkdir(link, { mode: 0o755 })
    // CRIU writes there as root of the burrow, too.
    await chown(link, template.manifest.uidBase, template.manifest.uidBase)
    await withEmptyBurrow(host, { sandboxId: newSandboxId(), template, toolsDir, limits, link }, (first) =>
      examineKernel({ criu, first, link }),
    )
  } finally {
    await rm(scratch, { recursive: true, force: true })
  }
}

/**
 * Lets CRIU look at the kernel once, in an empty burrow that no sandbox has touched, and keeps what it found. That saves every
 * later call tens of milliseconds. CRIU only ever reads the copy, which sandboxes cannot write.
 */
async function examineKernel({
  criu,
  first,
  link,
}: {
  criu: Criu
  first: FirstProcess
  link: string
}): Promise<void> {
  for (const as of ['host', 'burrow'] as const) {
    // Neither action can succeed; both examine the kernel first.
    const { output } = await runCriu({
      criu,
      firstPid: first.pid,
      as,
      isExamining: true,
      imagesDir: link,
      kdatDir: '/.dormouse/run',
      action: as === 'host' ? ['dump', '--tree', '1000000'] : ['restore'],
    })
    const directory = join(kdatDirectory(criu), as)
    await mkdir(directory, { recursive: true, mode: 0o755 })
    const final = join(directory, 'criu.kdat')
    await copyFile(join(link, 'criu.kdat'), `${final}.new`).catch((cause: unknown) => {
      const said = output.trim().slice(-300)
      throw new DormouseError('host_unsupported', `CRIU could not examine this kernel: ${said}`, { cause })
    })
    await chmod(`${final}.new`, 0o644)
    await rename(`${final}.new`, final)
    await rm(join(link, 'criu.kdat'))
  }
}
