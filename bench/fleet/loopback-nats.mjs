import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { connectCluster } from '@dormouse/cluster'

const TRIES = 100

/** Runs `work` with the address of a nats-server of its own on loopback, which is empty, and a connection to it. */
export async function withNats(key, work) {
  const directory = await mkdtemp(join(tmpdir(), 'dormouse-fleet-'))
  const port = await freePort()
  const args = ['--addr', '127.0.0.1', '--port', String(port), '--jetstream', '--store_dir', directory]
  const server = spawn('nats-server', args, { stdio: 'ignore' })
  try {
    const url = `nats://127.0.0.1:${port}`
    const connection = await connectWhenUp({ servers: [url], replicas: 1, key, hostId: 'fleet' })
    try {
      return await work({ url, connection })
    } finally {
      await connection[Symbol.asyncDispose]()
    }
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
      if (tries > TRIES) throw error
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
