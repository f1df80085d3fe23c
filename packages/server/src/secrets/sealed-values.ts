import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { DormouseError } from '@dormouse/contracts'
import { writePrivateFile } from '../data-directory/write-private-file.ts'

const CIPHER = 'aes-256-gcm'
const KEY_BYTES = 32
const NONCE_BYTES = 12
const TAG_BYTES = 16

/**
 * Encrypts values for the database. A value can be decrypted only for the secret it was encrypted for, so rows cannot
 * be swapped.
 */
export class SealedValues {
  readonly #key: Uint8Array

  constructor(key: Uint8Array) {
    this.#key = key
  }

  /** Uses the key in that file, or creates one; values that were encrypted with a lost key cannot be read. */
  static open(path: string): SealedValues {
    return new SealedValues(findKey(path) ?? writeKey(path, randomBytes(KEY_BYTES)))
  }

  /** Returns nonce, tag and ciphertext. */
  seal(value: string, id: string): Uint8Array {
    const nonce = randomBytes(NONCE_BYTES)
    const cipher = createCipheriv(CIPHER, this.#key, nonce, { authTagLength: TAG_BYTES }).setAAD(
      Buffer.from(id),
    )
    const sealed = Buffer.concat([cipher.update(value, 'utf8'), cipher.final()])
    return Buffer.concat([nonce, cipher.getAuthTag(), sealed])
  }

  /** Returns undefined when it was encrypted with another key or for another secret. */
  find(sealed: Uint8Array, id: string): string | undefined {
    try {
      const nonce = sealed.subarray(0, NONCE_BYTES)
      const decipher = createDecipheriv(CIPHER, this.#key, nonce, { authTagLength: TAG_BYTES })
        .setAAD(Buffer.from(id))
        .setAuthTag(sealed.subarray(NONCE_BYTES, NONCE_BYTES + TAG_BYTES))
      const content = sealed.subarray(NONCE_BYTES + TAG_BYTES)
      return decipher.update(content, undefined, 'utf8') + decipher.final('utf8')
    } catch {
      return undefined
    }
  }
}

function findKey(path: string): Uint8Array | undefined {
  let key: Buffer
  try {
    key = readFileSync(path)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
  if (key.length === KEY_BYTES) return key
  throw new DormouseError('setup_failed', `${path} is not the key that Dormouse wrote.`, {
    hint: 'Restore it from a backup. Without it the values of secrets cannot be read: delete it and set each secret again.',
  })
}

/** Written to disk first: values encrypted with a lost key are lost. */
function writeKey(path: string, key: Uint8Array): Uint8Array {
  writePrivateFile(path, key)
  return key
}
