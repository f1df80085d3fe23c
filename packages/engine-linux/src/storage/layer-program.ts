import type { Duplex } from 'node:stream'
import { onAbort } from '@dormouse/async'
import { DormouseError } from '@dormouse/contracts'
import { startProgram } from '../host/start-program.ts'
import { layersProgram } from '../native-programs.ts'

/** One line per layer of a scan, or an error message. */
const OUTPUT_MAX_CHARACTERS = 64 * 1024

export interface LayerChain {
  /** The directory that `layers` are in. */
  readonly layersDir: string
  /** An empty directory; the program mounts there in a mount namespace of its own. */
  readonly mountPoint: string
  /** Names, top first. */
  readonly layers: readonly string[]
  /** Directories below the last layer, top first. */
  readonly below: readonly string[]
  readonly signal?: AbortSignal | undefined
}

export interface LayerWeight {
  /** What a merge has to copy: its files, and everything that renamed directories show. */
  readonly sizeBytes: number
  /** Directories that were renamed. */
  readonly renames: number
  /** Files that a process has open, or that give an open file its inode number. */
  readonly known: number
}

/** Measures every layer of a chain. `openPaths` are paths in the sandbox, `carriedPaths` paths in the top layer. */
export async function scanLayers(
  chain: LayerChain & { openPaths: readonly string[]; carriedPaths: readonly string[] },
): Promise<LayerWeight[]> {
  const output = await runLayers(chain, 'scan', [], {
    open: chain.openPaths,
    carried: chain.carriedPaths,
  })
  return output
    .trim()
    .split('\n')
    .map((line) => {
      const [sizeBytes = 0, renames = 0, known = 0] = line.split(' ').map(Number)
      return { sizeBytes, renames, known }
    })
}

const LINKS_REFUSED = 'hard links in a renamed directory'

/**
 * Makes one layer in the empty directory `into` that shows the same on top of `below` as `layers` do. Nothing is
 * synced.
 * Returns false when files of renamed directories may have other names outside, which would become separate files; then
 * the content of `into` is useless. `breaksLinks` accepts that.
 */
export async function mergeLayers(
  chain: LayerChain & { into: string; breaksLinks: boolean },
): Promise<boolean> {
  try {
    await runLayers(chain, chain.breaksLinks ? 'merge-links' : 'merge', [chain.into], {})
    return true
  } catch (error) {
    const { details } = error as { details?: { output?: unknown } }
    if (String(details?.output).includes(LINKS_REFUSED)) return false
    throw error
  }
}

async function runLayers(
  { layersDir, mountPoint, layers, below, signal }: LayerChain,
  action: string,
  more: readonly string[],
  lists: Readonly<Record<string, readonly string[]>>,
): Promise<string> {
  signal?.throwIfAborted()
  const argv = [layersProgram, action, layersDir, mountPoint, ...more] as const
  const child = startProgram({ argv, stdio: ['pipe', 'pipe', 'pipe'] })
  const [input, stdout, stderr] = child.streams as [Duplex, Duplex, Duplex]
  using _abort = onAbort(signal, () => child.kill('SIGKILL'))
  let output = ''
  let message = ''
  stdout.setEncoding('utf8').on('data', (text: string) => {
    output = (output + text).slice(0, OUTPUT_MAX_CHARACTERS)
  })
  stderr.setEncoding('utf8').on('data', (text: string) => {
    message = (message + text).slice(0, OUTPUT_MAX_CHARACTERS)
  })
  // A program that gave up stops reading; its own message says more than a broken pipe.
  input.on('error', () => {})
  const records = Object.entries({ layer: layers, below, ...lists })
  input.end(records.flatMap(([key, values]) => values.map((value) => `${key}=${value}\0`)).join(''))
  const { exitCode, signal: killedBy } = await child.closed
  const ending = exitCode ?? `killed by ${killedBy}`
  signal?.throwIfAborted()
  if (ending !== 0) throw layersError(message.trim(), ending)
  return output
}

function layersError(message: string, ending: number | string): DormouseError {
  const details = { output: message, ending }
  if (message.endsWith('No space left on device') || message.endsWith('Disk quota exceeded'))
    return new DormouseError('no_space', 'There is no space to merge file layers.', { details })
  return new DormouseError(
    'internal',
    `Merging file layers failed: ${message || `dormouse-layers ended with ${ending}`}`,
    { details },
  )
}
