import type { VolumeMount } from '@dormouse/engine'
import type { PageWorker } from '../image/page-worker.ts'
import type { ImageThread } from './image-thread.ts'
import type { ImageWork, WorkInput, WorkOutput } from './image-work.ts'

/** The images of one dump, read by an image thread. */
export class DumpImages {
  readonly #thread: ImageThread

  private constructor(thread: ImageThread) {
    this.#thread = thread
  }

  /** Pre: CRIU has written the images. Throws `snapshot_refused` when they are too large. */
  static async read(thread: ImageThread, rawDir: string): Promise<DumpImages> {
    await thread.run('readDump', { rawDir })
    return new DumpImages(thread)
  }

  detachFromVolumes(volumes: { readonly mounts: readonly VolumeMount[]; readonly volumesDir: string }) {
    return this.#run('detachFromVolumes', volumes)
  }

  refuseLoss(pids: readonly number[]) {
    return this.#run('refuseLoss', { pids })
  }

  mend(mend: WorkInput<'mendDump'>) {
    return this.#run('mendDump', mend)
  }

  findTimers() {
    return this.#run('findTimers', {})
  }

  map(into: WorkInput<'mapDump'>, pages: PageWorker) {
    return this.#run('mapDump', into, pages)
  }

  #run<Op extends keyof ImageWork>(
    op: Op,
    input: WorkInput<Op>,
    pages?: PageWorker,
  ): Promise<WorkOutput<Op>> {
    return this.#thread.run(op, input, pages)
  }
}
