import type { VolumeMount } from '@dormouse/engine'
import type { PageWorker } from '../image/page-worker.ts'
import type { ImageThread } from './image-thread.ts'
import { borrowImageThread, onImageThread, prepareImageThread, returnImageThread } from './image-threads.ts'
import type { ImageWork, WorkInput, WorkOutput } from './image-work.ts'

/** The images of one dump. Holds an image thread from `read` until it is disposed. */
export class DumpImages implements AsyncDisposable {
  readonly #rawDir: string
  #thread: ImageThread | undefined

  constructor(rawDir: string) {
    this.#rawDir = rawDir
    // The thread starts while CRIU dumps the processes.
    prepareImageThread()
  }

  /** Pre: CRIU has written the images. Throws `snapshot_refused` when they are too large. */
  async read(): Promise<void> {
    this.#thread = await borrowImageThread()
    await this.#run('readDump', { rawDir: this.#rawDir })
  }

  detachFromVolumes(volumes: { readonly mounts: readonly VolumeMount[]; readonly volumesDir: string }) {
    return this.#run('detachFromVolumes', volumes)
  }

  refuseLoss(pids: readonly number[]) {
    return this.#run('refuseLoss', { pids })
  }

  mend() {
    return this.#run('mendDump', {})
  }

  map(into: WorkInput<'mapDump'>, pages: PageWorker) {
    return this.#run('mapDump', into, pages)
  }

  /** Finds the links that CRIU made in the sandbox. Works without `read`. */
  findRemapLinks(): Promise<string[]> {
    return onImageThread((thread) => thread.run('findRemapLinks', { rawDir: this.#rawDir }))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#thread !== undefined) returnImageThread(this.#thread)
    this.#thread = undefined
  }

  #run<Op extends keyof ImageWork>(
    op: Op,
    input: WorkInput<Op>,
    pages?: PageWorker,
  ): Promise<WorkOutput<Op>> {
    if (this.#thread === undefined) throw new Error('the dump has not been read')
    return this.#thread.run(op, input, pages)
  }
}
