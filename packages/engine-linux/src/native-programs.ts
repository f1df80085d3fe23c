import { fileURLToPath } from 'node:url'

/** Where `make` puts the native parts: the same directory from src/ and from dist/. */
export const nativeBuildDir = fileURLToPath(new URL('../native/build/', import.meta.url))
export const initProgram = inBuild('dormouse-init')
export const shiftProgram = inBuild('dormouse-shift')
export const ownProgram = inBuild('dormouse-own')
export const unpackProgram = inBuild('dormouse-unpack')
export const pagesProgram = inBuild('dormouse-pages')
export const moveProgram = inBuild('dormouse-move')
export const carryProgram = inBuild('dormouse-carry')
export const scrubProgram = inBuild('dormouse-scrub')
export const weighProgram = inBuild('dormouse-weigh')
export const arriveProgram = inBuild('dormouse-arrive')
export const extentsProgram = inBuild('dormouse-extents')
export const layersProgram = inBuild('dormouse-layers')
export const filesProgram = inBuild('dormouse-files')
export const volumeProgram = inBuild('dormouse-volume')
export const quotaProgram = inBuild('dormouse-quota')
/** Addons, which this process loads; the others are programs that it starts. */
export const gateAddon = inBuild('gate.node')
export const startAddon = inBuild('start.node')
export const hostnameAddon = inBuild('hostname.node')
export const aheadAddon = inBuild('ahead.node')
/** An addon that the Node kernel inside a burrow loads. */
export const reseedAddon = inBuild('reseed.node')
/** The seccomp filter of a CRIU that restores: see native/src/export-filters.c. */
export const baseFilter = inBuild('seccomp-base.bpf')
/**
 * The three filters of a burrow, for other programs that serve hostile code. Loaded in this order, a call that none of
 * them allows fails with ENOSYS.
 */
export const burrowFilters = [inBuild('seccomp-deny.bpf'), inBuild('seccomp-allow.bpf'), baseFilter] as const
export const enterLibrary = inBuild('libdormouse-enter.so')
/** Stand-ins for libraries that CRIU links but does not use here: see native/src/no-gnutls.c. */
export const criuLibraries = inBuild('criu')
export const guardLibrary = inBuild('libdormouse-guard.so')

function inBuild(name: string): string {
  return fileURLToPath(new URL(`../native/build/${name}`, import.meta.url))
}
