import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'

const file = (name) => fileURLToPath(new URL(name, import.meta.url))

/** The measured program on the host's loopback, and two relays in front of it. `end` stops them. */
export async function startControls() {
  const directory = await mkdtemp(join(tmpdir(), 'dormouse-bench-'))
  const native = join(directory, 'relay')
  execFileSync('gcc', ['-O2', '-Wall', '-Wextra', '-Werror', '-o', native, file('relay.c')])
  const direct = await start('python3', [file('serve.py'), '0'])
  const relays = [
    await start(native, [direct.port]),
    await start(process.execPath, [file('relay.mjs'), direct.port]),
  ]
  return {
    ports: { direct: direct.port, native: relays[0].port, node: relays[1].port },
    end: async () => {
      for (const { child } of [direct, ...relays]) child.kill()
      await rm(directory, { recursive: true })
    },
  }
}

async function start(program, args) {
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'inherit'] })
  const [port] = await once(createInterface({ input: child.stdout }), 'line')
  return { child, port }
}
