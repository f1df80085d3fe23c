import { execFile } from 'node:child_process'
import { mkdtemp, rm, statfs } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'

const run = promisify(execFile)
const DISK_BYTES = 6 * 1024 ** 3
const LEAST_BYTES = 512 * 1024

/** A disk at a directory, which the test can fill up. It takes the room that is used. */
export class OwnDisk {
  readonly #directory: string
  readonly #scratch: string

  private constructor(directory: string, scratch: string) {
    this.#directory = directory
    this.#scratch = scratch
  }

  static async mountAt(directory: string): Promise<OwnDisk> {
    const scratch = await mkdtemp(join(tmpdir(), 'dormouse-disk-'))
    const image = join(scratch, 'image')
    await run('truncate', ['-s', String(DISK_BYTES), image])
    await run('mkfs.ext4', ['-q', '-m', '0', image])
    await run('mount', ['-o', 'loop', image, directory])
    await rm(join(directory, 'lost+found'), { recursive: true })
    return new OwnDisk(directory, scratch)
  }

  get #ballast(): string {
    return join(this.#directory, '.ballast')
  }

  /** Leaves less than a megabyte, unless the test says otherwise. */
  async fill({ leavesBytes = LEAST_BYTES } = {}): Promise<void> {
    const { bavail, bsize } = await statfs(this.#directory)
    const length = bavail * bsize - leavesBytes
    if (length > 0) await run('fallocate', ['-l', String(length), this.#ballast]).catch(() => {})
  }

  async makeRoom(): Promise<void> {
    await rm(this.#ballast, { force: true })
  }

  async remove(): Promise<void> {
    await run('umount', ['--lazy', this.#directory])
    await rm(this.#scratch, { recursive: true, force: true })
  }
}
