import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import ssh2 from 'ssh2'
import type { SshBench } from './ssh-client.ts'

// biome-ignore lint/suspicious/noExplicitAny: what is not meant to be touched has no types
export type RawClient = any

const { Client } = ssh2 as unknown as { Client: new () => RawClient }

/** A client that does what OpenSSH's cannot be told to do. */
export async function connectRaw({ client: { port }, key }: SshBench): Promise<RawClient> {
  const client = new Client()
  const ready = once(client, 'ready')
  client.on('error', () => {})
  client.connect({ host: '127.0.0.1', port, username: 'box', privateKey: readFileSync(key) })
  await ready
  return client
}

export function execRaw(client: RawClient, command: string, options: object = {}): Promise<RawClient> {
  return new Promise((resolve, reject) =>
    client.exec(command, options, (error: Error | undefined, channel: RawClient) =>
      error === undefined ? resolve(channel) : reject(error),
    ),
  )
}
