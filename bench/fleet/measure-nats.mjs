import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { connectCluster, Directory } from '@dormouse/cluster'

const SECONDS = 5
const WRITERS = 128
const ENTRY = {
  ...{ host: 'host-1', epoch: 1, generation: 0, owner: 'key-1', state: 'running', createdAt: 1 },
  row: { text: 'x'.repeat(600) },
}

/** Compare-and-set writes of directory entries that a real nats-server holds for one client, on this machine. */
export async function measureNats(key) {
  const directory = await mkdtemp(join(tmpdir(), 'dormouse-fleet-'))
  const port = await freePort()
  const args = ['--addr', '127.0.0.1', '--port', String(port), '--jetstream', '--store_dir', directory]
  const server = spawn('nats-server', args, { stdio: 'ignore' })
  try {
    const connection = await connectWhenUp({
      servers: [`nats://127.0.0.1:${port}`],
      replicas: 1,
      key,
      hostId: 'fleet',
    })
    const entries = await Directory.open({ bucket: connection.directory, key })
    let writes = 0
    const endsAt = performance.now() + SECONDS * 1000
    const write = async (index) => {
      let located = await entries.add(`sb-${index}`, ENTRY)
      while (performance.now() < endsAt) {
        located = await entries.change(located, ENTRY)
        writes += 1
      }
    }
    await Promise.all(Array.from({ length: WRITERS }, (_, index) => write(index)))
    entries[Symbol.dispose]()
    await connection[Symbol.asyncDispose]()
    return { perSecond: writes / SECONDS }
  } finally {
    server.kill()
    await once(server, 'exit')
    await rm(directory, { recursive: true, force: true })
  }
}

async function connectWhenUp(options) {
  for (let tries = 0; ; tries += 1) {
    try {
      return await connectCluster(options)
    } catch (error) {
      if (tries > 100) throw error
      await sleep(50)
    }
  }
}

async function freePort() {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address()
  server.close()
  await once(server, 'close')
  return port
}
