import { readFile } from 'node:fs/promises'
import { arch, release } from 'node:os'
import { z } from 'zod'

export const fingerprintSchema = z.strictObject({
  arch: z.string(),
  kernel: z.string(),
  /** CPU features that programs may have found at their start and go on using. */
  cpuFlags: z.array(z.string()),
})

export type Fingerprint = z.output<typeof fingerprintSchema>

let here: Promise<Fingerprint> | undefined

/** Read once: neither changes under a running process. */
export function readFingerprint(): Promise<Fingerprint> {
  here ??= examineHost()
  here.catch(() => {
    here = undefined
  })
  return here
}

async function examineHost(): Promise<Fingerprint> {
  const info = await readFile('/proc/cpuinfo', 'utf8')
  const flags = /^(?:flags|Features)\s*:\s*(?<flags>.*)$/m.exec(info)?.groups?.flags ?? ''
  return { arch: arch(), kernel: release(), cpuFlags: flags.split(/\s+/).filter(Boolean).sort() }
}

/** Why memory saved there cannot run here; undefined when it can. More features than before do no harm. */
export function mismatch(saved: Fingerprint, here: Fingerprint): string | undefined {
  if (saved.arch !== here.arch) return `it was taken on ${saved.arch}, this is ${here.arch}`
  const present = new Set(here.cpuFlags)
  const missing = saved.cpuFlags.filter((flag) => !present.has(flag))
  return missing.length === 0 ? undefined : `this CPU lacks ${missing.slice(0, 8).join(', ')}`
}
