import { fileURLToPath } from 'node:url'

/** Where `make` puts the native parts: the same directory from src/ and from dist/. */
export const guestInit = inBuild('dormouse-guest-init')
export const jailProgram = inBuild('dormouse-jail')
export const mappedRootProgram = inBuild('dormouse-mapped-root')
export const volumeServerProgram = inBuild('dormouse-volume-server')
export const pagesProgram = inBuild('dormouse-vm-pages')
export const memoryLibrary = inBuild('libdormouse-vm-memory.so')

function inBuild(name: string): string {
  return fileURLToPath(new URL(`../native/build/${name}`, import.meta.url))
}
