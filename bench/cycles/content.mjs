import { createHash } from 'node:crypto'
import { crc32 } from 'node:zlib'
import { newSandboxId } from '@dormouse/contracts'
import { python } from '../workbench.mjs'

const NUMBERS = 8 * 1024 ** 2
const CHANGED = 256 * 1024
const FILES = 20
const DIRECTORY = '/root/cycles'

/**
 * A sandbox and the expected content on the host's side: 32 MiB of numbers, of which every cycle changes one MiB;
 * twenty files, of which every cycle writes one and removes another; a thread; and a child process that echoes.
 * `check` compares the sandbox's checksums with those of the copy here.
 */
export class Content {
  #numbers = Uint32Array.from({ length: NUMBERS }, (_, index) => index)
  #files = new Map()

  async create(engine) {
    const burrow = await engine.createBurrow({ sandboxId: newSandboxId(), template: 'python' })
    await python(
      burrow,
      `
import hashlib, os, pathlib, subprocess, threading, time, zlib
import numpy as np
numbers = np.arange(${NUMBERS}, dtype=np.uint32)
directory = pathlib.Path('${DIRECTORY}')
directory.mkdir()
child = subprocess.Popen(['cat'], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
beats = 0
def beat():
    global beats
    while True:
        beats += 1
        time.sleep(0.01)
threading.Thread(target=beat, daemon=True).start()
def change(cycle, start):
    numbers[start : start + ${CHANGED}] += cycle
    (directory / f'{cycle % ${FILES}}').write_text(f'{cycle} ' * cycle)
    (directory / f'{(cycle + 7) % ${FILES}}').unlink(missing_ok=True)
def tell(cycle):
    before = beats
    child.stdin.write(f'{cycle}\\n')
    echo = child.stdout.readline().strip()
    files = hashlib.sha256()
    for path in sorted(directory.iterdir()):
        files.update(f'{path.name}={path.read_text()};'.encode())
    while beats == before:
        time.sleep(0.001)
    return f'{zlib.crc32(numbers)} {files.hexdigest()} {echo}'
`,
    )
    return burrow
  }

  async change(burrow, cycle) {
    const start = (cycle * 1_000_003) % (NUMBERS - CHANGED)
    for (let i = start; i < start + CHANGED; i++) this.#numbers[i] += cycle
    this.#files.set(String(cycle % FILES), `${cycle} `.repeat(cycle))
    this.#files.delete(String((cycle + 7) % FILES))
    await python(burrow, `change(${cycle}, ${start})`)
  }

  async check(burrow, cycle) {
    const found = await python(burrow, `print(tell(${cycle}))`)
    const expected = `${crc32(this.#numbers)} ${this.#filesHash()} ${cycle}`
    if (found !== expected) throw new Error(`wrong content: found ${found}, expected ${expected}`)
  }

  #filesHash() {
    const hash = createHash('sha256')
    const names = [...this.#files.keys()].sort()
    for (const name of names) hash.update(`${name}=${this.#files.get(name)};`)
    return hash.digest('hex')
  }
}
