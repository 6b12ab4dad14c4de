"""How sides become lists, trees and shards."""
