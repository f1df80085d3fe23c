/**
 * A build of a template on any host. The same hash built twice has the same packages, but not the same files to the
 * byte: times differ.
 */
export interface TemplateBuild {
  readonly name: string
  readonly hash: string
  readonly builtAt: string
}

const LOCAL_HASH = /^[0-9a-z]{1,64}(?:\.\d{1,24})?$/

/** The hash by which this host calls a build that another host has made: it may have one of the same hash itself. */
export function hashOfFetched({ hash, builtAt }: TemplateBuild): string {
  return `${hash}.${digitsOf(builtAt)}`
}

/** The hash that the host says that has made the build. */
export function hashOfBuild(localHash: string): string {
  return localHash.replace(/\..*$/, '')
}

export function isLocalHash(text: string): boolean {
  return LOCAL_HASH.test(text)
}

/** A time as part of a name. */
export function digitsOf(builtAt: string): string {
  return builtAt.replace(/\D/g, '')
}
