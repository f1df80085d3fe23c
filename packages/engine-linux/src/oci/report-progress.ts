import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'

const EVERY_MS = 2_000
/** skopeo writes a blob under such a name in the layout until it is complete. */
const PARTIAL = /^oci-put-blob/
const MEGABYTE = 1e6

export interface ReportProgress {
  readonly layout: string
  /** Digests and sizes of the layers that are pulled. */
  readonly layers: ReadonlyMap<string, number>
  readonly onLine: (line: string) => void
}

/** Says now and then how much of the layers has arrived. Without a terminal, skopeo only says when a layer begins. */
export function reportProgress({ layout, layers, onLine }: ReportProgress): Disposable {
  const total = [...layers.values()].reduce((sum, bytes) => sum + bytes, 0)
  let last = ''
  const timer = setInterval(async () => {
    // A file may be renamed while it is looked at.
    const arrived = await arrivedBytes(layout, layers).catch(() => undefined)
    const line = `Pulled ${megabytes(Math.min(arrived ?? 0, total))} of ${megabytes(total)} MB`
    if (arrived !== undefined && line !== last) onLine(line)
    last = arrived === undefined ? last : line
  }, EVERY_MS)
  timer.unref()
  return { [Symbol.dispose]: () => clearInterval(timer) }
}

async function arrivedBytes(layout: string, layers: ReadonlyMap<string, number>): Promise<number> {
  const blobs = join(layout, 'blobs/sha256')
  const complete = (await readdir(blobs)).filter((name) => layers.has(`sha256:${name}`))
  const partial = (await readdir(layout)).filter((name) => PARTIAL.test(name))
  const paths = [...complete.map((name) => join(blobs, name)), ...partial.map((name) => join(layout, name))]
  const sizes = await Promise.all(paths.map(async (path) => (await stat(path)).size))
  return sizes.reduce((sum, bytes) => sum + bytes, 0)
}

function megabytes(bytes: number): string {
  return (bytes / MEGABYTE).toFixed(bytes < 10 * MEGABYTE ? 1 : 0)
}
