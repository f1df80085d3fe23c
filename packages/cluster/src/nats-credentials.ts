import { readFileSync } from 'node:fs'
import { DormouseError } from '@dormouse/contracts'

/** Both parts, to the end of the second one. */
const WHOLE = /-----BEGIN NATS USER JWT-----.*-----BEGIN USER NKEY SEED-----.*END USER NKEY SEED-+\n/s

/**
 * Reads a `.creds` file of NATS anew for each connection, as credentials are replaced before they expire. While the file
 * is being replaced, the last ones count. Throws `setup_failed` if there are none.
 */
export function natsCredentials(path: string): () => Uint8Array {
  let known = readWhole(path)
  return () => {
    try {
      known = readWhole(path)
    } catch {
      // NATS refuses the last ones if they have expired; a later connection reads the file again.
    }
    return known
  }
}

function readWhole(path: string): Uint8Array {
  const content = read(path)
  if (WHOLE.test(content.toString('latin1'))) return content
  throw new DormouseError('setup_failed', 'The credentials file of the cluster is not one of NATS.', {
    hint: 'Give `cluster.credentialsFile` the `.creds` file of a NATS user.',
  })
}

function read(path: string): Buffer {
  try {
    return readFileSync(path)
  } catch (cause) {
    throw new DormouseError('setup_failed', 'The credentials file of the cluster cannot be read.', {
      hint: 'Check `cluster.credentialsFile` and its permissions.',
      cause,
    })
  }
}
