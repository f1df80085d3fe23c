import { joinOverlapping, touchesAny } from './guarded-ranges.ts'
import {
  isGuardPages,
  isPlainAnonymous,
  isPlainPrivateMapping,
  isPrivateFile,
  type MemoryArea,
  PROTECTION,
} from './memory-area.ts'
import { layOutMemory, type MemoryLayout } from './memory-layout.ts'
import { type PageRun, presentBytes } from './pagemap.ts'

/** What an area of a task is to a pack: part of a library, part of an existing memory file, or anonymous memory. */
export type PackedKind = 'library' | 'memory' | 'anonymous'

export interface PackedArea extends MemoryArea {
  readonly kind: PackedKind
}

/** Areas that follow each other without a gap, in memory and in the pack. */
export interface PackedGroup {
  readonly start: bigint
  readonly end: bigint
  readonly areas: readonly PackedArea[]
}

export interface TaskPack {
  readonly layout: MemoryLayout
  readonly groups: readonly PackedGroup[]
  /** New protections of areas, by start. Neighbours with the same protection become one mapping. */
  readonly protections: ReadonlyMap<bigint, bigint>
}

/**
 * Decides how the libraries and the memory of a task fit into one file. A library keeps its shape there, so that its
 * segments are neighbours in the file as well as in memory. Then a restore needs two mappings for it instead of six:
 * all that is not written is one of them, all that is written the other.
 *
 * `apart` lists ranges that must stay where they are. `findLibrary` tells which files may be packed.
 */
export function planPack(
  areas: readonly MemoryArea[],
  task: {
    runs: readonly PageRun[]
    apart: readonly { start: bigint; end: bigint }[]
    isLibrary: (fileId: bigint) => boolean
    isMemory: (fileId: bigint) => boolean
  },
): TaskPack {
  const apart = joinOverlapping([...task.apart, ...areas.filter(isGuardPages)])
  const mappings = areas.filter((area) => !isGuardPages(area) && !touchesAny(apart, area))
  const present = presentBytes(task.runs, mappings)
  const packed = mappings.flatMap((area) => {
    const kind = kindOf(area, { ...task, bytes: present.get(area) ?? 0n })
    return kind === undefined ? [] : [{ ...area, kind }]
  })
  const all = group(packed)
  const layout = layOutMemory(new Map(all.map((each) => [each, each.end - each.start])), {
    areasMax: all.length,
  })
  const placed = new Set(layout.placed.map(({ start }) => start))
  const groups = all.filter(({ start }) => placed.has(start))
  return { layout, groups, protections: new Map(groups.flatMap(({ areas: own }) => joinConstants(own))) }
}

function kindOf(
  area: MemoryArea,
  task: { bytes: bigint; isLibrary: (id: bigint) => boolean; isMemory: (id: bigint) => boolean },
): PackedKind | undefined {
  if (isPrivateFile(area) && task.isMemory(area.fileId)) return 'memory'
  if (isPlainPrivateMapping(area) && task.isLibrary(area.fileId)) return 'library'
  // Without content it is cheaper to leave it anonymous.
  return isPlainAnonymous(area) && task.bytes > 0n ? 'anonymous' : undefined
}

/**
 * A library and the variables behind it are a group. Other memory stays alone: the layout leaves a hole behind every
 * group, into which mremap() can grow it.
 */
function group(packed: readonly PackedArea[]): PackedGroup[] {
  const groups: PackedArea[][] = []
  for (const area of [...packed].sort((one, other) => (one.start < other.start ? -1 : 1))) {
    const last = groups.at(-1)
    const before = last?.at(-1)
    const isNext = before?.end === area.start && last?.[0]?.kind === 'library'
    if (last !== undefined && isNext && (area.kind !== 'library' || before.kind === 'library'))
      last.push(area)
    else groups.push([area])
  }
  return groups.map((areas) => ({
    start: areas[0]?.start ?? 0n,
    end: areas.at(-1)?.end ?? 0n,
    areas,
  }))
}

/**
 * Code and constants of a library that follow each other get the same protection: they can be read and executed.
 * Neither can be written before or after.
 */
function joinConstants(areas: readonly PackedArea[]): [start: bigint, prot: bigint][] {
  const constants: PackedArea[][] = []
  for (const [index, area] of areas.entries()) {
    if (areas[0]?.kind !== 'library' || !isConstant(area)) continue
    const last = constants.at(-1)
    if (last !== undefined && last.at(-1) === areas[index - 1]) last.push(area)
    else constants.push([area])
  }
  return constants.flatMap((own) => {
    const prot = own.reduce((all, area) => all | area.prot, 0n)
    return own.map((area): [bigint, bigint] => [area.start, prot])
  })
}

function isConstant({ prot }: PackedArea): boolean {
  return (prot & PROTECTION.write) === 0n && (prot & PROTECTION.read) !== 0n
}
