/** What is between a sandbox and its host: Linux's own boundaries around processes, or a virtual machine. */
export const ISOLATIONS = ['process', 'microvm'] as const
export type Isolation = (typeof ISOLATIONS)[number]
