import { mkdirSync, statSync, writeFileSync } from 'node:fs'
import { dirname, extname, join } from 'node:path'
import type { ResultData } from 'dormouse'
import { UsageError } from './cli-error.ts'

/** Types of results that can be files, the best first, with their extensions. */
const TYPES: readonly (readonly [string, readonly string[]])[] = [
  ['image/png', ['png']],
  ['image/jpeg', ['jpg', 'jpeg']],
  ['image/gif', ['gif']],
  ['image/svg+xml', ['svg']],
  ['application/pdf', ['pdf']],
  ['text/html', ['html', 'htm']],
  ['application/json', ['json']],
]
const TEXT_TYPES = new Set(['image/svg+xml', 'text/html'])

/** Writes the results of a run to files: plots to a directory, or results of one type to `plot.png`, `plot-2.png`, … */
export class ResultSaver {
  readonly saved: string[] = []
  readonly #target: string
  /** Undefined when the target is a directory. */
  readonly #extension: string | undefined

  /** Checks the target before anything runs. */
  constructor(target: string) {
    this.#target = target
    if (target.endsWith('/')) mkdirSync(target, { recursive: true })
    if (isDirectory(target)) return
    this.#extension = extname(target).slice(1).toLowerCase()
    if (!TYPES.some(([, extensions]) => extensions.includes(this.#extension ?? '')))
      throw new UsageError(
        `--save cannot tell the type of "${target}"`,
        'Use a name such as plot.png, or a directory such as plots/.',
      )
    if (!isDirectory(dirname(target))) throw new UsageError(`there is no directory ${dirname(target)}`)
  }

  /** A result without a suitable type is left out. */
  save(data: ResultData): void {
    const [type, extensions] =
      TYPES.find(([type, extensions]) =>
        this.#extension === undefined
          ? isPlot(type) && data[type] !== undefined
          : extensions.includes(this.#extension) && data[type] !== undefined,
      ) ?? []
    if (type === undefined) return
    const path = this.#nextPath(extensions?.[0] ?? '')
    writeFileSync(path, bytesOf(type, data[type]))
    this.saved.push(path)
  }

  /** What happened, for people. */
  summary(): string {
    return this.saved.length === 0
      ? 'Nothing was saved: the code showed no plot of that type.'
      : `Saved ${this.saved.join(', ')}.`
  }

  #nextPath(extension: string): string {
    const number = this.saved.length + 1
    if (this.#extension === undefined) return join(this.#target, `plot-${number}.${extension}`)
    if (number === 1) return this.#target
    return `${this.#target.slice(0, -this.#extension.length - 1)}-${number}.${this.#extension}`
  }
}

function isPlot(type: string): boolean {
  return type.startsWith('image/') || type === 'application/pdf'
}

function bytesOf(type: string, value: unknown): string | Buffer {
  if (type === 'application/json') return `${JSON.stringify(value, null, 2)}\n`
  return TEXT_TYPES.has(type) ? String(value) : Buffer.from(String(value), 'base64')
}

function isDirectory(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() === true
}
