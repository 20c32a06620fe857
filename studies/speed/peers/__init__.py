"""The other side: libraries called through their public interfaces, and loops people write."""
