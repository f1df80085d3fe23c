/** What a burrow's network looks like from inside; the same in every one. dormouse-init makes it: native/src/network.c. */
export const OWN_IPV4 = '198.18.0.2'
export const OWN_IPV6 = 'fd64:6f72:6d6f::2'
/** Answers at port 53 while a gate is open. */
export const RESOLVER = '198.18.0.1'
