import type { Duplex } from 'node:stream'
import type { VolumeId } from '@dormouse/contracts'
import type { DiskUse, Measurement, SizeLimit, VolumeLimits } from '@dormouse/engine'
import { startProgram } from '../host/start-program.ts'
import { quotaProgram } from '../native-programs.ts'

/** Limits that the kernel enforces, where the file system of the volumes has project quotas. See native/src/quota.c. */
export class VolumeQuotas {
  readonly #dir: string
  readonly #hard = new Set<VolumeId>()

  constructor(dir: string) {
    this.#dir = dir
  }

  /** Gives an empty volume its limits. */
  async add(volumeId: VolumeId, { bytes, files }: VolumeLimits): Promise<SizeLimit> {
    const [limit] = await this.#learn([volumeId], [`new ${volumeId} ${Math.ceil(bytes)} ${Math.ceil(files)}`])
    return limit ?? 'measured'
  }

  /** Returns the volumes whose limits are hard. */
  async set(limits: readonly (VolumeLimits & { readonly volumeId: VolumeId })[]): Promise<Set<VolumeId>> {
    const ids = limits.map(({ volumeId }) => volumeId)
    const lines = limits.map(
      ({ volumeId, bytes, files }) => `limit ${volumeId} ${Math.ceil(bytes)} ${Math.ceil(files)}`,
    )
    const kinds = limits.length === 0 ? [] : await this.#learn(ids, lines)
    return new Set(ids.filter((_, index) => kinds[index] === 'hard'))
  }

  /** Frees the limits of a volume that is about to be removed. */
  async free(volumeId: VolumeId): Promise<void> {
    if (this.#hard.delete(volumeId)) await this.#run([`free ${volumeId}`])
  }

  /** What the kernel counts; undefined for volumes without a hard limit. */
  measurement(volumeId: VolumeId): Measurement | undefined {
    if (!this.#hard.has(volumeId)) return undefined
    return { advance: () => this.#use(volumeId), [Symbol.dispose]: () => {} }
  }

  async #use(volumeId: VolumeId): Promise<DiskUse> {
    const [line = ''] = await this.#run([`use ${volumeId}`])
    const [, bytes, files] = /^hard (\d+) (\d+)$/.exec(line) ?? []
    if (bytes === undefined) throw new Error(`The kernel does not count the volume ${volumeId} any more.`)
    return { bytes: Number(bytes), files: Number(files), isWhole: true }
  }

  async #learn(ids: readonly VolumeId[], lines: readonly string[]): Promise<SizeLimit[]> {
    const kinds = (await this.#run(lines)).map((line) => (line.startsWith('hard ') ? 'hard' : 'measured'))
    ids.forEach((id, index) => {
      if (kinds[index] === 'hard') this.#hard.add(id)
      else this.#hard.delete(id)
    })
    return kinds
  }

  async #run(lines: readonly string[]): Promise<string[]> {
    const program = startProgram({ argv: [quotaProgram, this.#dir], stdio: ['pipe', 'pipe', 'pipe'] })
    const [input, output, errors] = program.streams as [Duplex, Duplex, Duplex]
    // A program that gave up stops reading; its own message says more than a broken pipe.
    input.on('error', () => {})
    input.end(lines.map((line) => `${line}\n`).join(''))
    const [text, message] = await Promise.all([textOf(output), textOf(errors)])
    const { exitCode } = await program.exited
    if (exitCode !== 0) throw new Error(`Limits of volumes were not set: ${message.trim()}`)
    return text.split('\n').slice(0, lines.length)
  }
}

async function textOf(stream: Duplex): Promise<string> {
  let text = ''
  for await (const chunk of stream) text += String(chunk)
  return text
}
